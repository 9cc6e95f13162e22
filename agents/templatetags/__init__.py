"""Template tags of the pages."""

from __future__ import annotations
