"""What has changed since a viewer's last flush, bounded by its nature."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from agents.events import Item, Kind

FEED = 60
ALERTS = 20
# These change who is in the fleet or how it fares as a whole.
WIDE = frozenset(
    {
        Kind.MYSIS_STATE,
        Kind.ERROR,
        Kind.ALERT_RAISED,
        Kind.ALERT_CLEARED,
    }
)


@dataclass(slots=True)
class Dirty:
    """Myses to draw again, with the newest event that says so, and feed lines.

    ``newest`` is the last event of the stream, ``wide`` the last one that
    concerns the fleet as a whole, ``turns`` the last end of a turn, ``prompts`` the last
    one that changed a prompt, ``orders`` the last one that changed an order; 0 for none.
    ``states`` are those of the Myses whose state changed, ``branched`` those of whose
    log something was taken back.
    """

    myses: dict[int, int] = field(default_factory=dict)
    feed: deque[Item] = field(default_factory=lambda: deque(maxlen=FEED))
    alerts: deque[Item] = field(default_factory=lambda: deque(maxlen=ALERTS))
    newest: int = 0
    wide: int = 0
    turns: int = 0
    prompts: int = 0
    orders: int = 0
    states: set[int] = field(default_factory=set)
    branched: set[int] = field(default_factory=set)
    everything: bool = False

    def add(self, item: Item) -> None:
        self.newest = item["id"]
        owner = item["mysis"]
        if owner is not None:
            self.myses[owner] = item["id"]
            if item["kind"] == Kind.MYSIS_STATE:
                self.states.add(owner)
            if item["kind"] == Kind.MYSIS_BRANCHED:
                self.branched.add(owner)
        if item["kind"] in WIDE:
            self.wide = item["id"]
        if item["kind"] == Kind.TURN_FINISHED:
            self.turns = item["id"]
        if item["kind"] == Kind.PROMPT_CHANGED:
            self.prompts = item["id"]
        if item["kind"] == Kind.ORDER_CHANGED:
            self.orders = item["id"]
        if item["kind"] == Kind.ALERT_RAISED:
            self.alerts.append(item)
        self.feed.append(item)

    def __bool__(self) -> bool:
        return bool(self.everything or self.myses or self.feed or self.wide)

    def hand_out(self, most: int) -> Dirty:
        """At most ``most`` Myses and all else; the rest stays."""
        chosen = list(self.myses)[:most]
        myses = {number: self.myses.pop(number) for number in chosen}
        states = self.states.intersection(chosen)
        branched = self.branched.intersection(chosen)
        taken = replace(self, myses=myses, states=states, branched=branched)
        self.feed = deque(maxlen=FEED)
        self.alerts = deque(maxlen=ALERTS)
        self.newest = self.wide = self.turns = self.prompts = self.orders = 0
        self.everything = False
        self.states.difference_update(chosen)
        self.branched.difference_update(chosen)
        return taken
