"""What happened to a Mysis since its next context was assembled for a reader.

The page is not redrawn; a banner says since when and by how much it is out of date.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any

from django.db.models import Max
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString

from agents import events
from agents.context_inputs import read_inputs
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions, draw_fragment
from agents.events import START, Item, Kind, Position
from agents.models import Mysis
from memory.models import Memory
from memory.snapshots.reads import read_tick

BATCH = 500
# Beyond so many events nobody wants the exact number.
MOST = 1_000

MESSAGE, TURN, SNAPSHOT, SUMMARY = "message", "turn", "snapshot", "summary"
COUNTED = {
    Kind.MEMORY_ADDED: MESSAGE,
    Kind.TURN_STARTED: TURN,
    Kind.TURN_FINISHED: TURN,
    Kind.SNAPSHOT_UPDATED: SNAPSHOT,
    Kind.SNAPSHOT_STALE: SNAPSHOT,
    Kind.CONTEXT_COMPACTED: SUMMARY,
}
PLURALS = {SUMMARY: "summaries"}


@dataclass(frozen=True, slots=True)
class ContextMoment:
    """The moment at which a context is assembled.

    ``event`` is the last event before it, ``memory`` the newest message, ``tick`` the
    account's, ``settings`` a digest of what the context depends on beside the log.
    """

    at: datetime
    event: int
    memory: int | None
    tick: int | None
    settings: str


def note_moment(mysis: Mysis) -> ContextMoment:
    """Now; to be asked before the context is assembled, so that nothing is missed."""
    account = mysis.account
    return ContextMoment(
        event=events.read_settled_end().id,
        at=timezone.now(),
        memory=Memory.objects.filter(mysis=mysis).aggregate(n=Max("id"))["n"],
        tick=read_tick(account.username) if account else mysis.tick,
        settings=digest_settings(mysis),
    )


def digest_settings(mysis: Mysis) -> str:
    """A digest that changes with what somebody sets: name, model, prompt, orders,
    notes, policy and the tools that the game offers.

    What is learnt by itself is none of it: how a model counts, what a provider's window
    really holds, which account is logged in.
    """
    brief, policy = read_inputs(mysis), mysis.effective_policy
    settings = sorted(mysis.model_settings.items())
    known = (
        (mysis.name, mysis.model, mysis.messaging, settings),
        (brief.prompt, brief.pins, brief.notes, brief.catalogue),
        brief.tool_policies,
        (policy.pk, policy.strategy, sorted(policy.options.items())),
        (policy.budget_tokens, policy.budget_reserve),
        # It tells how many calls of a turn are left.
        policy.strategy == "coalesced" and mysis.max_iterations,
    )
    return blake2b(repr(known).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class ChangesSince:
    """What was written after an event. ``since`` is when the first of it was.

    Things that are told of twice, as a turn by its start and its end, count once.
    """

    after: Position = START
    since: datetime | None = None
    things: dict[str, set[object]] = field(default_factory=dict)
    read: int = 0

    @property
    def full(self) -> bool:
        return self.read >= MOST

    @property
    def words(self) -> str:
        """How much of what: ``3 messages, 1 turn``."""
        counts = ((name, len(found)) for name, found in self.things.items())
        return ", ".join(
            f"{count} {name if count == 1 else PLURALS.get(name, f'{name}s')}"
            for name, count in counts
        )

    def read_on(self, mysis_id: int) -> None:
        """Take in what was written since it was read last."""
        while not self.full:
            rows = events.read_from(self.after, mysis_id=mysis_id, limit=BATCH)
            for self.after, item in rows:
                self._add(item)
            if len(rows) < BATCH:
                return

    def _add(self, item: Item) -> None:
        self.read += 1
        name = COUNTED.get(Kind(item["kind"]))
        if name is None:
            return
        self.since = self.since or parse_datetime(item["at"])
        self.things.setdefault(name, set()).add(_thing(name, item["data"]))


def _thing(name: str, data: dict[str, Any]) -> object:
    if name == SNAPSHOT:
        return data.get("tool"), str(data.get("args") or "")
    return data.get({MESSAGE: "memory_id", TURN: "turn"}.get(name, "id"))


class ContextPage:
    """The next context of a Mysis: whether what the reader has is still what it is."""

    def __init__(self, mysis: Mysis, after: int, settings: str) -> None:
        self.mysis_id = mysis.pk
        self.news = ChangesSince(events.find_position(after))
        self.settings = settings
        self.changed: datetime | None = None
        self.gone = False
        self.sent = SentVersions()

    def draw_all(self, through: Position) -> list[SafeString]:
        return self.draw_changes(Dirty(everything=True))

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        log = dirty.everything or self.mysis_id in dirty.myses
        # A prompt that changed may be that of this Mysis.
        settings = dirty.everything or dirty.prompts or self.mysis_id in dirty.states
        if log:
            self.news.read_on(self.mysis_id)
        if settings and self.changed is None:
            self._compare_settings()
        return self.sent.draw_news(self._draw()) if log or settings else []

    def _compare_settings(self) -> None:
        rows = Mysis.objects.select_related("policy")
        mysis = rows.filter(pk=self.mysis_id).first()
        self.gone = mysis is None
        if mysis is not None and digest_settings(mysis) != self.settings:
            self.changed = timezone.now()

    def _draw(self) -> list[Fragment]:
        since = self.news.since or self.changed
        state = "gone" if self.gone else "outdated" if since else ""
        words = {"since": since, "changed": self.changed, "most": MOST}
        return [
            draw_fragment("context/outdated", state=state),
            draw_fragment("context/gone", gone=self.gone),
            draw_fragment("context/news", state=state, news=self.news, **words),
        ]
