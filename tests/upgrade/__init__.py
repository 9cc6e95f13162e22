"""Databases and programs of the landed releases, beside what is here now."""
