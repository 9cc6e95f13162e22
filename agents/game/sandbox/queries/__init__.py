"""What a captain can ask: free of charge and answered at once."""

from __future__ import annotations
