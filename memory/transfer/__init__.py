"""Histories out of the log and into it, in the formats of this and other programs."""

from __future__ import annotations
