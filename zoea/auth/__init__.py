"""Who is asking, and what they may do: tokens, roles, sign-in links."""

from __future__ import annotations

from .links import create_sign_in_link

__all__ = ["create_sign_in_link"]
