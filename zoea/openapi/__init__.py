"""What the OpenAPI document says beyond the routes' own types: errors and examples."""

from __future__ import annotations

from .document import complete

__all__ = ["complete"]
