"""Turns. Others use `turn` (take one turn) and `recovery` (admission, lost turns).

All else is for these two; import-linter holds it."""
