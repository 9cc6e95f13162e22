"""The closed loop: one seeded fleet, flown under several ways of making contexts."""

from __future__ import annotations
