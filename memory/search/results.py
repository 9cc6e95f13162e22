"""What is found in the log, and what of a stored message may be shown (A11, DESIGN 7).

Every door shows memories through here: secrets are taken out once more, whatever the
texts went through on their way in, and calls of secret tools stay hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from django.contrib.postgres.search import SearchQuery
from django.db.models import F, IntegerField, Model, Q, QuerySet, Value
from django.db.models.functions import Lower, StrIndex
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memory.game_calls import is_secret_call
from memory.models import Memory, fetch_rows
from memory.models.secret_tools import read_secret_tools
from memory.models.vectors import build_plain_vector, describe_calls, replace_signs
from memory.redaction import HIDDEN, hide_secrets, hide_secrets_in_value
from memory.search.query import Count as Count
from memory.search.query import Mode, TextQuery, cut_stem
from memory.search.query import limit_time as limit_time
from memory.search.visibility import find_seen_ids

M = TypeVar("M", bound=Model)
SNIPPET_CHARACTERS = 240
# Those that fit into so many bytes, at least one, and the first that does not.
_HITS = """
WITH sized AS (
  SELECT *, octet_length(content) + octet_length(reasoning) + octet_length(calls_text)
    AS own FROM memory_memory WHERE id = ANY(%(ids)s)
), summed AS (
  SELECT *, row_number() OVER newest AS place, sum(own) OVER newest AS total
  FROM sized WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
)
SELECT id, mysis_id, role, origin, content, reasoning, tool_calls, created_at,
  branch_id IS NOT NULL, place = 1 OR total <= %(most)s
FROM summed WHERE place <= 2 OR total - own <= %(most)s ORDER BY id DESC
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """One match. ``snippet`` is HTML: escaped text with ``<mark>`` around hits.

    ``content`` is what was said and, a line for each, the calls that were made. What was
    ``taken_back`` is in no view any more. ``fits`` is false for the one that is too long
    for its page, which is the last.
    """

    memory_id: int
    mysis: int
    role: str
    origin: str
    content: str
    reasoning: str
    snippet: SafeString
    timestamp: datetime
    taken_back: bool = False
    fits: bool = True


def search_messages(  # noqa: PLR0913 (one keyword for each part of a question)
    *,
    query: str,
    mysis_id: int | None = None,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    reasoning: bool = False,
    calls: bool = False,
    ignore_case: bool = False,
    stem: bool = False,
    origin: str = "",
    standing: bool = False,
    seconds: float | None = None,
    most_bytes: int = 2**62,
) -> list[Hit]:
    """The newest matches, newest first (W10, W12); no match is an empty list.

    Of what was said, ``reasoning`` or ``calls`` alone. Secrets are taken out of what is
    found (A11). Raises SlowSearchError. ``ignore_case`` is for exact search, ``stem``
    (English) for words; see `TextQuery`. It may take ``seconds``, None for the usual. With
    ``standing`` what was taken back is left out, as it is for the Mysis itself. Beyond
    ``most_bytes`` of texts there is one hit at most, which does not fit.
    """
    wanted = TextQuery(
        query=query.replace("\x00", ""),
        mode=mode,
        field="reasoning" if reasoning else "calls" if calls else "content",
        mysis_id=mysis_id,
        before=before,
        ignore_case=ignore_case,
        stem=stem,
        secret=read_secret_tools(),
        origin=origin,
        standing=standing,
    )
    ids = find_seen_ids(wanted, limit, seconds)
    if not ids:
        return []
    pattern = build_pattern(wanted)
    found = fetch_rows(_HITS, {"ids": list(ids), "most": most_bytes})
    return [_to_hit(row, wanted, pattern) for row in found]


def _to_hit(
    row: Sequence[Any], wanted: TextQuery, pattern: re.Pattern[str] | None
) -> Hit:
    memory_id, mysis, role, origin, said, reasoning, calls, made, back, fits = row
    # Raw queries bring JSON as its text.
    called = describe_calls(json.loads(calls), wanted.secret)
    content = "\n".join(filter(None, [hide_secrets(said), called]))
    reasoning = hide_secrets(reasoning)
    texts = {"content": content, "reasoning": reasoning, "calls": called}
    return Hit(
        memory_id=memory_id,
        mysis=mysis,
        role=role,
        origin=origin,
        content=content,
        reasoning=reasoning,
        snippet=make_snippet(texts[wanted.field], pattern),
        timestamp=made,
        taken_back=back,
        fits=fits,
    )


def make_snippet(text: str, pattern: re.Pattern[str] | None) -> SafeString:
    """The surroundings of the first hit as safe HTML, with all hits in it marked.

    Not by ``ts_headline``, which drops everything between tags.
    """
    first = pattern.search(text) if pattern else None
    if pattern is None or first is None:
        return format_html("{}", text[:SNIPPET_CHARACTERS])
    start = max(0, first.start() - SNIPPET_CHARACTERS // 3)
    end = max(first.end(), start + SNIPPET_CHARACTERS)
    pieces: list[str] = ["… " if start else ""]
    at = start
    for hit in pattern.finditer(text, start, end):
        pieces += [text[at : hit.start()], format_html("<mark>{}</mark>", hit[0])]
        at = hit.end()
    pieces += [text[at:end], " …" if end < len(text) else ""]
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def build_marker(query: str, mode: Mode) -> re.Pattern[str] | None:
    """What to mark of a query in a text beside a snippet; None for nothing."""
    return build_pattern(TextQuery(query.replace("\x00", ""), mode))


def build_pattern(wanted: TextQuery) -> re.Pattern[str] | None:
    """What to mark in a text that matches; None for nothing."""
    if wanted.mode == "exact":
        flags = re.IGNORECASE if wanted.ignore_case else re.NOFLAG
        return re.compile(re.escape(wanted.query), flags)
    words = re.findall(r"(?<![\w-])(?!-)[\w-]*\w", replace_signs(wanted.query))
    longest_first = sorted(set(words) - {"or", "OR"}, key=len, reverse=True)
    if not longest_first:
        return None
    if wanted.stem:
        # Near enough for a mark: what begins as a stem of the same word would.
        stems = (
            re.escape(cut_stem(_cut_common_ending(word))) for word in longest_first
        )
        either = "|".join(rf"{stem}\w*" for stem in stems)
    else:
        either = "|".join(re.escape(word) for word in longest_first)
    return re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])", re.IGNORECASE)


def _cut_common_ending(word: str) -> str:
    return re.sub(r"(?:ings?|ed|es|s|e)$", "", word) if len(word) > 4 else word


# --- Rows beside the log


def filter_matching(rows: QuerySet[M], wanted: TextQuery, *fields: str) -> QuerySet[M]:
    """The rows that match in one of these text columns, which make up their ``vector``.

    There are few of them: stems and letters need no index.
    """
    if wanted.mode == "fts":
        config = "english" if wanted.stem else "simple"
        words = SearchQuery(
            replace_signs(wanted.query), search_type="websearch", config=config
        )
        if not wanted.stem:
            return rows.filter(vector=words)
        stems = build_plain_vector(*fields, config=config)
        return cast("QuerySet[M]", rows.alias(stems=stems).filter(stems=words))
    found = Q()
    for field in fields:
        text, query = F(field), Value(wanted.query)
        pair = (Lower(text), Lower(query)) if wanted.ignore_case else (text, query)
        at = StrIndex(*pair, output_field=IntegerField())
        rows = rows.alias(**{f"at_{field}": at})
        found |= Q(**{f"at_{field}__gt": 0})
    return rows.filter(found)


# --- What may be shown


def hide_row_secrets(row: Memory, secret: Collection[str]) -> Memory:
    """Take the secrets out of a row, which must not be saved then."""
    row.content = HIDDEN if row.tool_name in secret else hide_secrets(row.content)
    row.reasoning = hide_secrets(row.reasoning)
    row.tool_calls = [_hide_arguments(call, secret) for call in row.tool_calls]
    return row


def _hide_arguments(call: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    # The same arguments in another spelling.
    shown = {key: value for key, value in call.items() if key != "original"}
    if is_secret_call(function["name"], arguments, secret):
        arguments = HIDDEN
    elif isinstance(arguments, str):
        arguments = hide_secrets(arguments)
    else:
        arguments = hide_secrets_in_value(arguments)
    return {**shown, "function": {**function, "arguments": arguments}}
