"""What the pages cost: bytes, server time, and how late a row is painted."""

from __future__ import annotations
