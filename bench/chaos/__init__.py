"""A whole fleet of real processes, to which everything bad happens at once."""

from __future__ import annotations
