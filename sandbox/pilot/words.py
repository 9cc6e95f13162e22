"""What an order says: its parts in their order, each of a kind that the pilot knows.

A part is read as a whole, never by a word in its middle: what begins in no known way, or
goes on in one that the pilot does not heed, is not understood, and is said so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# A longer text is a summary or a report, not an order.
MAX_ORDER = 500
# Words of a place's name at most: more are prose.
LONGEST_PLACE = 4

_END = r"[,;:!?\n]+|\.+(?=\s|$)|\b(?:and|then)\b"
_SPLIT = re.compile(_END, re.I)
_GO_AND = re.compile(r"\bgo and\b", re.I)
# What is logged goes on to the end of the order, whatever stands in it.
_NOTE = re.compile(
    rf"(?:^|{_END})\s*((?:please )?(?:log|note|write down|remember)(?: this| that)?"
    r"\s*:\s*(.+))$",
    re.I,
)
_POLITE = re.compile(
    r"(?:(?:please|now|just|first|finally|next|again|also|ok(?:ay)?|hi|hello|hey|thanks"
    r"|thank you|good (?:morning|evening|day|job|work)|captains?|everybody|everyone|all (?:ships|hands|captains|of you)"
    r"|(?:can|could|would|will) you|you (?:must|should|shall)"
    r"|(?:i|we) (?:want|need|order) you to|let'?s)\b\s*)+",
    re.I,
)
_TAIL = re.compile(
    r"(?:\s+(?:please|now|again|first|too|as well|for me|quickly|at once|immediately"
    r"|right (?:away|now)|thanks|thank you))+$",
    re.I,
)
_ARTICLES = re.compile(r"(?:(?:the|a|an|your|our|nearest|closest|next)\s+)+", re.I)
_STATION = re.compile(r"(?:station|base|port|home|dock)$", re.I)
_NAMED_PLACE = re.compile(r"(?:system|planet)\s+", re.I)

# What may follow a verb and asks for nothing but what the pilot does anyway.
_ORE = r"(?: (?:for )?(?:(?:some|more|the|any) )*(?:ores?|minerals|rocks?|asteroids?))?"
_AS_EVER = r"(?: as (?:ever|before|usual|always))?"
_NEAR = r"(?: (?:at|in) (?:the |a |any |your )?(?:(?:nearest|closest|next) )?(?:station|base|port))?"
_SHIP = r"(?: (?:(?:the|your) (?:ship|tank|hull)|yourself))?(?: fully| completely)?"
_GOODS = (
    r"(?: (?:(?:everything|all|what|whatever)(?: (?:that )?you have)?"
    r"|(?:all )?(?:of )?(?:it|them|this|that)"
    r"|(?:all )?(?:of )?(?:(?:the|your) )?(?:cargo|ores?|load|goods|haul|hold)))?"
)
_STATE = (
    r"(?:current )?(?:status|state|credits|fuel|cargo|hold|position|location)"
    r"(?: levels?)?(?: report)?"
)
_UNTIL = (
    r"(?: (?:for|until) (?:(?:my|the|your|a|further|new|next|more|other) )*"
    r"(?:orders?|instructions?|commands?|notice))?"
)
_DOING = r"what(?:ever)? you(?: are|'re)? do(?:ing)?"
_DUTY = (
    r"(?:(?:standing|usual) )?(?:work|working|mining|mission|duties|duty|job|business)"
)
_WORK = re.compile(rf"{_DUTY}{_ORE}{_AS_EVER}", re.I)
_MINE = r"(?:go |keep (?:on )?|start |back to )?(?:mine|mining|dig|digging)"
_FULL = (
    r" (?:(?:until|till) (?:you are |you're |(?:it|(?:the|your)(?: cargo)?(?: hold| ship)?)"
    r" is )?full|to fill (?:the|your)(?: cargo)? hold)"
)
_MEMORY = r"(?: (?:in |through )?(?:the|your) (?:memory|messages|notes|log|history))?"

# Kind, verb, and all that may follow the verb.
_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        "search",
        r"search|look up|recall",
        rf"{_MEMORY}(?: for| about| what .*?\b(?:about|on|of))?\s+(.+)",
    ),
    (
        "search",
        r"what (?:did|do|have) (?:you|we|i)",
        r"\b.*\b(?:about|on|of)\s+(.+)",
    ),
    (
        "goto",
        r"go|get|travel|fly|head|move|jump|proceed|return|come",
        r" (?:back )?to\s+(.+)",
    ),
    ("dock", r"dock", r"\s+(?:at|in|to|with)\s+(.+)"),
    ("dock", r"dock", r"(?: (?:the|your) ship)?"),
    ("dock", r"come|go|fly|head|return", r" (?:back )?home"),
    ("dock", r"return|come back", ""),
    ("undock", r"undock", rf"{_SHIP}(?: from (?:the|your) (?:station|base|port))?"),
    ("sell", r"sell|unload", _GOODS + _NEAR),
    ("refuel", r"refuel|tank up|fill (?:up )?(?:the|your) tank", _SHIP + _NEAR),
    ("repair", r"repair", _SHIP + _NEAR),
    (
        "stop",
        r"stop|halt|cease",
        rf"(?: (?:here|there|moving|everything|(?:all )?{_DUTY}|{_DOING}))?{_UNTIL}",
    ),
    (
        "hold",
        r"hold|wait|pause|stand (?:down|by)|stay",
        r"(?: (?:on|still|put|here|there|where you are|(?:(?:your|the|this) )?position"
        rf"|{_DUTY}))?{_UNTIL}",
    ),
    (
        "report",
        r"report",
        rf"(?: back| in| to (?:me|us))*(?: (?:on )?(?:(?:the|your) )?{_STATE}"
        r"| when (?:(?:you are|you're) )?(?:done|finished))?",
    ),
    ("report", r"status|sitrep", r"(?: report)?"),
    ("report", r"(?:where|how) are you", r"(?: doing)?"),
    (
        "report",
        r"how (?:much|many)",
        r" (?:credits|money|fuel|cargo)(?: (?:do you have|have you(?: got)?|is|are))?"
        r"(?: left)?",
    ),
    (
        "report",
        r"what(?:'s| is| are)|(?:tell|give|send|show) (?:me|us)",
        rf" (?:your {_STATE}|a (?:status(?: report)?|report))",
    ),
    (
        "report",
        r"(?:(?:your|the) )?(?:credits|fuel|cargo|hold|position|location)",
        "",
    ),
    (
        "explore",
        r"explore|scout",
        r"(?: (?:a bit|a little|around|ahead"
        r"|(?:a|another|the next|some) (?:(?:new|other|neighbouring) )?system))?",
    ),
    ("fill", _MINE, _ORE + _FULL),
    ("work", _MINE, _ORE + _AS_EVER),
    ("work", r"work|back to work|keep (?:on )?(?:going|working)", _AS_EVER),
    (
        "work",
        r"resume|continue|carry on|go on|proceed",
        rf"(?: to mine)?(?: with)?(?: (?:the|your))?(?: {_DUTY})?{_ORE}{_AS_EVER}"
        r"(?: now that .+)?",
    ),
    ("work", r"(?:don'?t|never) stop", rf"(?: {_DUTY})?"),
)
_PATTERNS = tuple(
    (kind, re.compile(f"(?:{verb}){rest}", re.I)) for kind, verb, rest in _KINDS
)
_VERB = re.compile(rf"(?:{'|'.join(verb for _, verb, _ in _KINDS)})\b", re.I)
# Kinds that leave the ship where it is: to wait for the next order, and to tell.
HOLDS = ("hold", "stop")
TELLS = ("report", "search", "note")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an order, as it was said; of no ``kind`` where it is not understood."""

    kind: str
    words: str
    target: str = ""


def parse_order(text: str, name: str = "") -> tuple[Part, ...]:
    """The parts of an order to a captain of this name; none in what is no order."""
    words = " ".join(text.split())
    if len(words) > MAX_ORDER:
        return ()
    noted = _NOTE.search(words)
    head = words[: noted.start()] if noted else words
    said = (_clean(each) for each in _SPLIT.split(_GO_AND.sub("", head)))
    wanted = [each for each in said if each and each.casefold() != name.casefold()]
    parts = [*_join_parts([_read_part(each) for each in wanted])]
    if noted:
        parts.append(Part("note", noted[1], noted[2]))
    # Of a greeting alone nothing is left: it is said that it is no order.
    return tuple(parts) or ((Part("", words),) if words else ())


def _clean(fragment: str) -> str:
    said = fragment.strip(" .\"'")
    polite = _POLITE.match(said)
    return _TAIL.sub("", said[polite.end() :] if polite else said).strip()


def _read_part(said: str) -> Part:
    for kind, pattern in _PATTERNS:
        if found := pattern.fullmatch(said):
            target = found[1].strip() if found.groups() else ""
            if kind in ("goto", "dock") and target:
                return _read_goal(kind, said, target)
            return Part(kind, said, target)
    return Part("", said)


def _read_goal(kind: str, said: str, where: str) -> Part:
    """Any station is docked at, work is gone back to, prose is no place."""
    goal = _ARTICLES.sub("", where, count=1) if _ARTICLES.match(where) else where
    if _WORK.fullmatch(goal):
        return Part("work", said)
    if _STATION.match(goal):
        return Part("dock", said)
    goal = _NAMED_PLACE.sub("", goal, count=1) if _NAMED_PLACE.match(goal) else goal
    if len(goal.split()) > LONGEST_PLACE:
        return Part("", said)
    return Part(kind, said, goal)


def _join_parts(parts: Sequence[Part]) -> Iterator[Part]:
    """Mining with the sale of what is mined is one work; a search may have several words."""
    last: Part | None = None
    for part in parts:
        both = (last.kind if last else "", part.kind)
        named = both == ("search", "") and not _VERB.match(part.words)
        if last and (named or both in (("work", "work"), ("work", "sell"))):
            sells = "sell" if part.kind == "sell" else last.target
            target = f"{last.target} {part.words}" if part.kind == "" else sells
            last = replace(last, words=f"{last.words}, {part.words}", target=target)
            continue
        if last:
            yield last
        last = part
    if last:
        yield last
