"""What a message says, in whatever dialect it stands."""

from __future__ import annotations

import json
from typing import Any


def text_of(content: Any) -> str:
    """A message's content as text; blocks of other dialects as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False)
