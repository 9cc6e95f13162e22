"""The local game server."""

from __future__ import annotations
