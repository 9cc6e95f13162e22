"""Logs as files: of a Mysis, or of one of its turns, without secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice

from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from agents.dashboard.live.turn_page import find_turn
from agents.db import run_long_in_db
from agents.views.access import find_mysis
from memory import audit
from memory.transfer import in_out

# The end of a file's name, and what browsers are told that it is.
KINDS: Mapping[str, tuple[str, str]] = {
    "jsonl": ("jsonl", "application/x-ndjson"),
    "openai": ("json", "application/json"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
}
# Messages that are read and sent at once.
AT_ONCE = 50


@require_safe
def download_log(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """All that was said, thought, called and answered; ``?format=`` as `export` has it."""
    mysis = find_mysis(key)
    return _send(request, mysis.pk, mysis.name)


@require_safe
def download_turn(request: HttpRequest, turn_id: int) -> StreamingHttpResponse:
    """The same of one turn."""
    turn = find_turn(min(turn_id, 2**63 - 1))
    if turn is None:
        raise Http404("No such turn.")
    name = f"{turn.mysis.name} turn {turn.number}"
    return _send(request, turn.mysis_id, name, turn.pk)


def _send(
    request: HttpRequest, mysis_id: int, name: str, turn_id: int | None = None
) -> StreamingHttpResponse:
    form = request.GET.get("format", "jsonl")
    if form not in KINDS:
        raise Http404(f"format: give one of {', '.join(KINDS)}.")
    ending, kind = KINDS[form]
    if request.method == "GET":
        audit.record("log.download", f"log:{name}", after={"format": form})
    pieces = in_out.write_pieces(mysis_id, form, turn_id=turn_id)
    file_name = content_disposition_header(True, f"{name}.{ending}") or "attachment"
    return StreamingHttpResponse(
        _stream(pieces), content_type=kind, headers={"Content-Disposition": file_name}
    )


async def _stream(pieces: Iterator[str]) -> AsyncIterator[bytes]:
    """So much at a time as is taken: a log of any length in little memory."""
    while text := await run_long_in_db(_take, pieces):
        yield text.encode("utf-8", "surrogatepass")


def _take(pieces: Iterator[str]) -> str:
    return "".join(islice(pieces, AT_ONCE))
