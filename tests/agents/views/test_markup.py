"""Lists of terms and moments in time, as the HTML standard has them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from django.test import Client

from tests.browser import scenes

# A moment with its zone; fractions of a second have three digits at most.
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)\Z"
)
# Elements without an end.
VOID = {"input", "meta", "link", "br", "img", "use", "rect", "path", "circle", "hr"}


class Markup(HTMLParser):
    """Collects what is wrong with `dl` and `time` on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[str] = []
        self.group: list[list[str]] = []
        self.faults: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        above = self.around[-1:]
        if tag in ("dt", "dd"):
            inside = above == ["dl"] or (above == ["div"] and "dl" in self.around[-2:])
            self.faults += [] if inside else [f"{tag} inside {above}"]
            self.group[-1].append(tag)
        elif above == ["dl"] and tag != "div":
            self.faults.append(f"{tag} inside dl")
        if tag == "time":
            moment = dict(attrs).get("datetime") or ""
            self.faults += [] if MOMENT.match(moment) else [f"time {moment!r}"]
        if tag not in VOID:
            self.seen.add(tag)
            self.around.append(tag)
            self.group.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of SVG that ends at once."""

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or tag not in self.around:
            return
        while self.around.pop() != tag:
            self.group.pop()
        terms = self.group.pop()
        paired = terms[:1] == ["dt"] and terms[-1] == "dd"
        if terms and not paired:
            self.faults.append(f"{tag} with {terms}")


def test_lists_of_terms_and_moments_are_valid(admin: Client):
    fleet = scenes.busy_fleet()
    ada = fleet["Ada"]
    turn = ada.turns.latest("pk").pk
    line = ada.memories.latest("pk").pk
    addresses = [
        *("/", "/events/", "/health/", "/accounts/", "/orders/", "/yield/", "/map/"),
        *("/analytics/", "/analytics/?by=model"),
        *("/myses/Ada/", "/myses/Ada/context/", "/myses/Ada/notes/"),
        *("/myses/Ada/turns/", f"/turns/{turn}/"),
        f"/myses/Ada/messages/{line}/inspect/",
        f"/myses/{fleet[scenes.CJK].page_key}/",
    ]
    faults, seen = {}, set()
    for address in addresses:
        markup = Markup()
        markup.feed(admin.get(address).content.decode())
        seen |= markup.seen
        if markup.faults:
            faults[address] = sorted(set(markup.faults))
    assert faults == {}
    assert {"dl", "dt", "time"} <= seen
