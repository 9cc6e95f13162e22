"""What an order says: its parts in their order, each of a kind that the pilot knows.

A part is read from its beginning, never from a word in its middle: what begins in no
known way is not understood, and is said so.
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
_TAIL = re.compile(r"\s+(?:please|now|again|at once|immediately)$", re.I)
_ARTICLES = re.compile(r"(?:(?:the|a|an|your|our|nearest|closest|next)\s+)+", re.I)
_STATION = re.compile(r"(?:station|base|port|home|dock)$", re.I)
_WORK = re.compile(r"(?:work|mining|mission|duties|duty|job|business)\b", re.I)
_NAMED_PLACE = re.compile(r"(?:system|planet)\s+", re.I)

_MINING = r"(?:go |keep (?:on )?|start |back to )?(?:mine|mining|dig|digging)\b"
_KINDS: tuple[tuple[str, str], ...] = (
    ("search", r"(?:search|look up|recall)\b(?:.*?\b(?:for|about)\b)?\s+(.+)"),
    ("search", r"what (?:did|do|have) (?:you|we|i)\b.*\b(?:about|on|of)\s+(.+)"),
    (
        "goto",
        r"(?:go|get|travel|fly|head|move|jump|proceed|return) (?:back )?to\s+(.+)",
    ),
    ("dock", r"dock\s+(?:at|in|to|with)\s+(.+)"),
    ("dock", r"(?:dock|come home|go home|fly home)\b"),
    ("undock", r"undock\b"),
    ("sell", r"(?:sell|unload)\b"),
    ("refuel", r"(?:refuel|tank up|fill (?:up )?the tank)\b"),
    ("repair", r"repair\b"),
    ("hold", r"(?:stop|halt|hold|wait|pause|stand (?:down|by)|stay|cease)\b"),
    ("report", r"(?:report|status|sitrep|where are you|how (?:are you|much|many))\b"),
    ("report", r"(?:what(?:'s| is| are)|tell (?:me|us)|give (?:me|us)) your\b"),
    ("report", r"(?:give|send) (?:me|us) a (?:report|status)\b"),
    ("report", r"(?:your |the )?(?:credits|fuel|cargo|hold|hull|position|location)$"),
    ("explore", r"(?:explore|scout)\b"),
    ("fill", rf"{_MINING}.*\b(?:full|fill)\b"),
    ("work", rf"{_MINING}|(?:work|back to work|keep (?:on )?(?:going|working))\b"),
    ("work", r"(?:resume|continue|carry on|go on|proceed|(?:don'?t|never) stop)\b"),
)
_PATTERNS = tuple((kind, re.compile(words, re.I)) for kind, words in _KINDS)


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
        if found := pattern.match(said):
            target = found[1].strip() if found.groups() else ""
            if kind in ("goto", "dock") and target:
                return _read_goal(kind, said, target)
            return Part(kind, said, target)
    return Part("", said)


def _read_goal(kind: str, said: str, where: str) -> Part:
    """Any station is docked at, work is gone back to, prose is no place."""
    goal = _ARTICLES.sub("", where, count=1) if _ARTICLES.match(where) else where
    if _WORK.match(goal):
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
        if last and both in (("work", "work"), ("work", "sell"), ("search", "")):
            sells = "sell" if part.kind == "sell" else last.target
            target = f"{last.target} {part.words}" if part.kind == "" else sells
            last = replace(last, words=f"{last.words}, {part.words}", target=target)
            continue
        if last:
            yield last
        last = part
    if last:
        yield last
