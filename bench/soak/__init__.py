"""A whole fleet for a long time, many events at once, and a very long memory."""

from __future__ import annotations
