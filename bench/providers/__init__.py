"""Model providers over HTTP that refuse what the real ones refuse; for chaos and tests."""

from __future__ import annotations
