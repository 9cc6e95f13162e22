"""The operator's pages and the commands on them."""

from __future__ import annotations
