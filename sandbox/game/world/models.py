"""The players and all that is theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.game.config import Json
from sandbox.game.world import catalogue

# Numbers of things by item.
Goods = dict[str, int]


def measure_goods(goods: Mapping[str, int]) -> int:
    return sum(catalogue.ITEMS[name].size * count for name, count in goods.items())


def add_goods(goods: Goods, item_id: str, change: int) -> None:
    """Add to goods, or take away; the caller has checked that they are there."""
    goods[item_id] = goods.get(item_id, 0) + change
    if not goods[item_id]:
        del goods[item_id]


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
    """A standing offer at one base, to "sell" or "buy"; what it needs is given."""

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
    id: str
    title: str
    content: str
    created_at: str


@dataclass(slots=True)
class Job:
    """A happening at `due_tick`; `subject` is a recipe, an order or the like."""

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
    built: list[str] = field(default_factory=list)


STATS = (
    "credits_earned", "credits_spent", "ships_destroyed", "ships_lost",
    "pirates_destroyed", "bases_destroyed", "ore_mined", "items_crafted",
    "trades_completed", "systems_explored", "distance_traveled", "time_played",
)  # fmt: skip


@dataclass(slots=True)
class Module:
    id: str
    type_id: str
    ammo: int = 0

    def value(self, name: str) -> int:
        """Read one figure of its type, 0 where the type has none."""
        return int(catalogue.MODULES[self.type_id].get(name, 0))


@dataclass(slots=True)
class Ship:
    """A ship; `base_id` is where it is kept while its captain flies another one."""

    id: str
    owner_id: str
    class_id: str
    created_at: str
    hull: int
    shield: int
    fuel: int
    cargo: Goods = field(default_factory=dict)
    modules: list[Module] = field(default_factory=list)
    name: str = ""
    base_id: str = ""

    @property
    def build(self) -> catalogue.ShipClass:
        return catalogue.SHIP_CLASSES[self.class_id]

    @property
    def title(self) -> str:
        """The name that its captain gave it, else that of its class."""
        return self.name or self.build.name

    @property
    def cargo_used(self) -> int:
        return measure_goods(self.cargo)

    @property
    def cargo_free(self) -> int:
        return self.build.cargo - self.cargo_used

    def load(self, item_id: str, count: int) -> None:
        """Put items into the hold; a number below 0 takes them out."""
        add_goods(self.cargo, item_id, count)

    def total(self, name: str) -> int:
        """Add up one figure over all fitted modules."""
        return sum(module.value(name) for module in self.modules)


@dataclass(slots=True)
class Skill:
    """A level and what was learned since it was reached."""

    level: int = 0
    xp: int = 0


@dataclass(slots=True)
class LogEntry:
    entry: str
    created_at: str


@dataclass(slots=True)
class Pending:
    """An accepted action whose outcome comes at `due_tick`.

    `begun` is set at the first tick after the acceptance. `flag` is added to the
    result: what the game did by itself to make the action possible.
    """

    tool: str
    arguments: Json
    due_tick: int
    begun: bool = False
    flag: str = ""


@dataclass(slots=True)
class Mission:
    """An accepted mission; `current` counts towards what its template requires."""

    id: str
    template_id: str
    base_id: str
    expire_tick: int
    current: int = 0


@dataclass(slots=True)
class Wreck:
    """A wreck at a place; `type` is ship or jettison."""

    id: str
    type: str
    poi_id: str
    system_id: str
    victim_id: str
    victim_name: str
    ship_class: str
    cargo: Goods
    created_ns: int
    expire_tick: int


@dataclass(slots=True)
class Trade:
    id: str
    offerer_id: str
    offerer_name: str
    target_id: str
    offer_items: Goods
    offer_credits: int
    request_items: Goods
    request_credits: int


@dataclass(slots=True)
class Player:
    """An account and its captain."""

    id: str
    username: str
    empire: str
    password_hash: str
    created_at: str
    home_base: str
    system_id: str
    poi_id: str
    ship: Ship
    credits: int = 100
    docked_at: str | None = None
    last_login_at: str = ""
    last_active_at: str = ""
    skills: dict[str, Skill] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATS, 0))
    visited: dict[str, str] = field(default_factory=dict)
    log: list[LogEntry] = field(default_factory=list)
    pending: Pending | None = None
    acted_tick: int = 0
    target_id: str | None = None
    missions: list[Mission] = field(default_factory=list)
    completed: dict[str, str] = field(default_factory=dict)
    stores: dict[str, Goods] = field(default_factory=dict)
    saved_credits: dict[str, int] = field(default_factory=dict)
    looks: Looks = field(default_factory=Looks)
    hangar: list[Ship] = field(default_factory=list)
    drones: list[Drone] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list)
    coverage: int = 0
    claim: int = 0
    towing: str = ""
    faction_id: str = ""

    @property
    def in_transit(self) -> bool:
        """Is the ship under way, that is at no place at all?"""
        flight = self.pending
        return bool(flight and flight.begun and flight.tool in ("travel", "jump"))

    def earn(self, amount: int) -> None:
        self.credits += amount
        self.stats["credits_earned"] += amount

    def spend(self, amount: int) -> None:
        """Pay; the caller has checked that the credits are there."""
        self.credits -= amount
        self.stats["credits_spent"] += amount

    def learn(self, skill_id: str, xp: int) -> bool:
        """Add experience; True when a level was gained."""
        skill = self.skills.setdefault(skill_id, Skill())
        level = skill.level
        if level >= catalogue.MAX_LEVEL:
            return False
        skill.xp += xp
        while 0 < (needed := catalogue.xp_needed(skill.level)) <= skill.xp:
            skill.xp -= needed
            skill.level += 1
        if skill.level >= catalogue.MAX_LEVEL:
            skill.xp = 0
        return skill.level > level

    def advance_missions(self, goal: str, item_id: str, count: int) -> None:
        """Count what was done towards every mission that it serves."""
        for mission in self.missions:
            template = catalogue.TEMPLATES[mission.template_id]
            if template.goal == goal and template.item_id in ("", item_id):
                mission.current = min(template.required, mission.current + count)
