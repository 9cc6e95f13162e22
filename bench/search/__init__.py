"""How fast a long memory is searched, beside plain SQL in the same database."""

from __future__ import annotations
