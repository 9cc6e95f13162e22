"""What captains have beside a ship: offers, drones, notes, work in hand, company."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Looks:
    """What others see of a captain, and whether they see him at all."""

    status_message: str = ""
    primary_color: str = "#FFFFFF"
    secondary_color: str = "#000000"
    anonymous: bool = False
    cloaked: bool = False


@dataclass(slots=True)
class Order:
    """A standing offer at one base; `side` is sell or buy.

    What it needs was given when it was made: the goods, or the credits.
    """

    id: str
    player_id: str
    base_id: str
    side: str
    item_id: str
    price_each: int
    quantity: int
    remaining: int
    fee: int
    created_at: str


@dataclass(slots=True)
class Drone:
    """A drone that digs at a place by itself, and how much it has so far."""

    id: str
    poi_id: str
    resource_id: str
    mined: int = 0


@dataclass(slots=True)
class Note:
    """A text that a captain has written down."""

    id: str
    title: str
    content: str
    created_at: str


@dataclass(slots=True)
class Job:
    """Something that happens to a captain at `due_tick`: a kind of happening.

    `subject` is what it is about, such as a recipe or an order.
    """

    id: str
    kind: str
    player_id: str
    base_id: str
    subject: str
    count: int = 1
    due_tick: int = 0


@dataclass(slots=True)
class Faction:
    """A company of captains; `members` gives each one's rank."""

    id: str
    name: str
    tag: str
    members: dict[str, str] = field(default_factory=dict)
    invited: list[str] = field(default_factory=list)
    enemies: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Thread:
    """A thread of the forum with its posts, as they are shown."""

    id: str
    title: str
    author: str
    created_at: str
    posts: list[dict[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class BaseState:
    """What has become of a base: damage in per cent, and what was built there."""

    damage: int = 0
    repaired_tick: int = 0
    built: list[str] = field(default_factory=list)
