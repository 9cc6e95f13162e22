"""What the palette offers for what is typed into it: Myses, pages, commands, a search."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import CharField, F, Value
from django.db.models.functions import Length, Lower, StrIndex
from django.urls import reverse
from django.utils.http import urlencode

from agents.actions import MAX_TEXT
from agents.actions.base import OPEN_STATES
from agents.dashboard.conversation import clip_text
from agents.models import Mysis

# Myses that are offered at most, and characters of a message that is repeated.
OFFERED = 8
SHOWN = 100
EVERYBODY = ("all", "fleet", "everybody")
# Label, address and icon of each page.
PAGES = (
    ("Fleet", "fleet", "fleet"),
    ("Map", "map", "map"),
    ("Yield", "yield", "coins"),
    ("Analytics", "analytics", "compare"),
    ("Lanes", "lanes", "lanes"),
    ("Compare two Myses", "compare", "lanes"),
    ("Orders", "orders", "check"),
    ("Search", "search", "search"),
    ("Events", "events", "flag"),
    ("Prompts", "prompts", "prompt"),
    ("Policies", "policies", "context"),
    ("Lab", "lab", "compare"),
    ("Accounts", "accounts", "user"),
    ("Health", "health", "health"),
    ("Alerts", "alerts", "alert"),
)
NEW_MYSIS = ("New Mysis", "mysis-new", "plus")


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the palette: a link, or a command that is posted with its values.

    ``compose`` is whom the composer is opened for, where the page has one; ``keys``
    opens the list of keys.
    """

    words: str
    icon: str
    link: str = ""
    post: str = ""
    values: str = "{}"
    compose: str = ""
    keys: bool = False


KEYS = Option("Keyboard shortcuts", "prompt", keys=True)


def list_options(typed: str, *, operator: bool, admin: bool) -> list[Option]:
    """The lines for what was typed; commands for operators only."""
    typed = " ".join(typed.replace("\x00", "").split())
    verb, _, rest = typed.partition(" ")
    command = _COMMANDS.get(verb.lower())
    # An act is offered for a name alone: Enter takes what is offered first.
    if command is not None and operator and (rest or command is _message):
        named = map(_offer_page, _find_myses(typed))
        return [*command(rest), *named, *_offer_search(typed)]
    if verb.lower() == "search" and rest:
        return _offer_search(rest)
    pages = (*PAGES, NEW_MYSIS) if admin else PAGES
    each = [Option(label, icon, reverse(name)) for label, name, icon in pages]
    found = [one for one in (*each, KEYS) if typed.lower() in one.words.lower()]
    if not typed:
        return found
    myses = _find_myses(typed)
    acts = _offer_acts(myses[0]) if operator and myses else []
    return [*map(_offer_page, myses), *acts, *found, *_offer_search(typed)]


def _find_myses(name: str) -> list[Mysis]:
    """Those whose names hold a text, the ones that begin with it first."""
    rows = Mysis.objects.filter(name__icontains=name).only("name", "state")
    at = StrIndex(Lower("name"), Lower(Value(name)))
    return list(rows.order_by(at, Lower("name"))[:OFFERED])


def _offer_page(mysis: Mysis) -> Option:
    return Option(mysis.name, "zoea", mysis.get_absolute_url())


def _offer_search(text: str) -> list[Option]:
    if not text:
        return []
    words = f"Search for “{clip_text(text, SHOWN)}”"
    return [Option(words, "search", f"{reverse('search')}?{urlencode({'q': text})}")]


def _offer_acts(mysis: Mysis) -> list[Option]:
    listens = mysis.state in OPEN_STATES
    running = mysis.state == Mysis.State.RUNNING
    stop = [_offer_stop(mysis)] if listens else []
    start = [] if running else [_offer_start(mysis)]
    return [*stop, *start, _offer_composer(mysis)]


def _offer_stop(mysis: Mysis) -> Option:
    post = reverse("mysis-stop", args=[mysis.page_key])
    return Option(f"Stop {mysis.name}", "stopped", post=post)


def _offer_start(mysis: Mysis) -> Option:
    post = reverse("mysis-start", args=[mysis.page_key])
    return Option(f"Start {mysis.name}", "running", post=post)


def _offer_composer(mysis: Mysis) -> Option:
    link = f"{reverse('fleet')}?to={mysis.pk}#composer"
    return Option(f"Message {mysis.name}", "message", link, compose=str(mysis.pk))


# --- Commands


def _stop(name: str) -> Iterable[Option]:
    return [_offer_stop(one) for one in _find_myses(name) if one.state in OPEN_STATES]


def _start(name: str) -> Iterable[Option]:
    running = Mysis.State.RUNNING
    return [_offer_start(one) for one in _find_myses(name) if one.state != running]


def _message(rest: str) -> Sequence[Option]:
    """To the fleet, or to who is named before the text; without a text the composer."""
    who, _, text = rest.partition(" ")
    if who.lower() in EVERYBODY:
        if text:
            return [_offer_message("the whole fleet", "", text)]
        link = f"{reverse('fleet')}#composer"
        return [Option("Message the whole fleet", "broadcast", link)]
    named = _find_named(rest)
    if named is None:
        return [_offer_composer(one) for one in _find_myses(rest)]
    text = rest[len(named.name) :].strip()
    if text:
        return [_offer_message(named.name, str(named.pk), text)]
    return [_offer_composer(named)]


def _find_named(rest: str) -> Mysis | None:
    """Whose name a text begins with: of several the longest."""
    asked = Value(f"{rest} ", output_field=CharField())
    rows = Mysis.objects.alias(asked=asked).filter(asked__istartswith=F("name"))
    found = rows.only("name", "state").order_by(Length("name").desc())
    fits = (one for one in found if f"{rest} "[len(one.name) :].startswith(" "))
    return next(fits, None)


def _offer_message(whom: str, to: str, text: str) -> Option:
    return Option(
        f"Send to {whom}: “{clip_text(text, SHOWN)}”",
        "message" if to else "broadcast",
        post=reverse("send"),
        values=json.dumps({"to": to, "text": text[:MAX_TEXT]}),
    )


_COMMANDS = {"stop": _stop, "start": _start, "message": _message}
