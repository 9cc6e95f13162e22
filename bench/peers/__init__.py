"""The same histories and searches on Zoea and on the stores of other libraries."""

from __future__ import annotations
