"""What a provider says in the body of an error, however it is wrapped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agents.llm.overflow import CODES

_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_DEEPEST = 6


def provider_text(body: object, depth: int = 0) -> str:
    """The provider's own sentence, with what tells an operator more than that.

    A router's "Provider returned error" is followed by what that provider said, a
    refusal for its length by the sizes that stand beside it.
    """
    if isinstance(body, str):
        return page_text(body)
    if not isinstance(body, Mapping) or depth > _DEEPEST:
        return ""
    for key in ("error", "message", "detail"):
        if found := provider_text(body.get(key), depth + 1):
            return " ".join([found, *_beside(found, body, depth)])
    return ""


def page_text(text: str) -> str:
    """A page of HTML as its title; any other text as it is."""
    if not _PAGE.match(text):
        return text
    title = _TITLE.search(text)
    return f'an HTML page, "{title[1].strip()}"' if title else "an HTML page"


def _beside(found: str, body: Mapping[str, object], depth: int) -> list[str]:
    metadata = body.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    inner = provider_text(_parsed(raw), depth + 1)
    codes = [body.get("code"), body.get("type")]
    sizes = [(key, body.get(key)) for key in ("n_prompt_tokens", "n_ctx")]
    told = [f"{key} {size}" for key, size in sizes if isinstance(size, int)]
    told += [str(code) for code in codes if code in CODES and str(code) not in found]
    return [*([inner] if inner else []), *([f"({', '.join(told)})"] if told else [])]


def _parsed(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw
