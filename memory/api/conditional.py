"""Answers that a client need not be sent twice: ETag, 304, and Accept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response, patch_vary_headers

MARKDOWN = "text/markdown"


def prefers_markdown(request: HttpRequest) -> bool:
    """Whether the Accept header likes Markdown better than JSON."""
    preferred = request.get_preferred_type(["application/json", MARKDOWN])
    return preferred == MARKDOWN


def answer(
    request: HttpRequest, version: Any, make: Callable[[], HttpResponse]
) -> HttpResponse:
    """What ``make`` makes, with an ETag of ``version``; 304 where that is known.

    ``version`` is anything whose repr changes whenever the answer tells something new.
    The ETag is a weak one, as two answers of one version need not be the same bytes.
    """
    etag = f'W/"{hashlib.sha256(repr(version).encode()).hexdigest()[:32]}"'
    known = get_conditional_response(request, etag=etag)
    response = known if isinstance(known, HttpResponse) else make()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
    return response
