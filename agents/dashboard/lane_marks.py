"""What happened at a moment: the marks on lanes, and where each stands in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from memory.models import fetch_rows
from memory.redaction import hide_secrets

# Marks of a page, the newest ones.
MARKS = 400
# Characters of a text that are shown, and that are read of it: a secret must not slip
# through where it is cut.
TEXT, READ = 120, 1_120
# Kinds of marks, and what each says.
MARK_KINDS: Mapping[str, str] = {
    "order": "an order",
    "change": "another prompt, policy or model",
    "compaction": "the context compacted",
    "attack": "under attack",
}

_MARKS = f"""
SELECT turn.mysis_id, turn.started_at, 'change', concat(turn.changed, ': ', concat_ws(', ',
    CASE WHEN changed ~ 'prompt' THEN coalesce(concat(prompt.name, ' v', version.number),
      'the built-in prompt') END,
    CASE WHEN changed ~ 'policy' THEN coalesce(nullif(policy_name, ''), 'built-in') END,
    CASE WHEN changed ~ 'model' THEN turn.model END)), turn.id, NULL::bigint
FROM agents_turn AS turn
LEFT JOIN agents_promptversion AS version ON version.id = turn.prompt_version_id
LEFT JOIN agents_prompt AS prompt ON prompt.id = version.prompt_id
WHERE turn.changed <> '' AND turn.started_at >= %(since)s AND turn.started_at < %(until)s
  AND turn.mysis_id = ANY(%(myses)s)
UNION ALL
SELECT told.mysis_id, given.created_at, 'order', left(given.text, {READ}), NULL, told.memory_id
FROM agents_order AS given JOIN agents_orderrecipient AS told ON told.order_id = given.id
WHERE given.created_at >= %(since)s AND given.created_at < %(until)s
  AND told.mysis_id = ANY(%(myses)s)
UNION ALL
SELECT mysis_id, created_at,
  CASE kind WHEN 'alert.raised' THEN 'attack' ELSE 'compaction' END,
  left(coalesce(data->>'text', data->>'reason', ''), {READ}), NULL, NULL
FROM agents_event
WHERE kind = ANY('{{context.compacted,alert.raised}}') AND xid BETWEEN %(first)s AND %(last)s
  AND created_at >= %(since)s AND created_at < %(until)s AND mysis_id = ANY(%(myses)s)
  AND CASE kind WHEN 'alert.raised' THEN data->>'rule' = 'attacked'
    ELSE coalesce(data->>'status', 'made') = 'made' END
ORDER BY 2 DESC LIMIT %(most)s
"""  # noqa: S608 (no input in the text)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment; ``kind`` is one of `MARK_KINDS`."""

    mysis: int
    at: datetime
    kind: str
    text: str
    turn: int | None = None
    memory: int | None = None

    @property
    def title(self) -> str:
        return MARK_KINDS[self.kind]

    @property
    def link(self) -> str:
        """Where it stands in its place."""
        return find_place_link(self.mysis, self.at, self.memory, self.turn)


def find_place_link(
    mysis: int, at: datetime, memory: int | None = None, turn: int | None = None
) -> str:
    """The address of a message, of a turn, or of what a Mysis did at a moment."""
    if memory is not None:
        return f"{reverse('mysis', args=[str(mysis)])}?at={memory}"
    if turn is not None:
        return reverse("turn", args=[turn])
    query = urlencode({"mysis": str(mysis), "at": f"{at.timestamp():.0f}"})
    return f"{reverse('lanes-place')}?{query}"


def read_marks(values: Mapping[str, Any]) -> tuple[dict[int, list[Mark]], bool]:
    """The newest marks by Mysis, and whether there are more than that.

    ``values`` name the Myses, the span, and the transactions of its events.
    """
    rows = fetch_rows(_MARKS, {**values, "most": MARKS + 1})
    found: dict[int, list[Mark]] = defaultdict(list)
    for mysis, at, kind, text, *place in rows[:MARKS]:
        shown = hide_secrets(text)[:TEXT]
        found[mysis].append(Mark(mysis, at, kind, shown, *place))
    return found, len(rows) > MARKS
