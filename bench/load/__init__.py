"""A whole fleet under load, and a database of very many memories."""
