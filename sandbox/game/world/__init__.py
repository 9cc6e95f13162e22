"""The world and those who live in it, before anything happens."""

from __future__ import annotations
