"""The command line of the agents."""

from __future__ import annotations
