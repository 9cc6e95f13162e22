"""What the usual round consists of: flying, mining, trading and fighting."""

from __future__ import annotations
