"""Measures Zoea; README.md tells what, against which baselines, and how to run it."""

from __future__ import annotations
