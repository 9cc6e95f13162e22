"""What an agent is told: its default orders, and the nudges between turns.

Placeholders are filled in when a prompt is sent, so that an edited prompt, a new
account or a new broadcast shows in the very next call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from memory.context.types import CRITICAL_REMINDERS, NUDGES, OPEN_ORDERS_LEAD

DEFAULT_PROMPT = """\
You are {{ name }}, a Mysis: one of a fleet of captains in SpaceMolt, an online \
game of trade, mining and exploration. You play it only through the tools you are \
given, and you decide by yourself.

Your game account: {{ account }}
Latest word from your commander: {{ broadcast }}

## How the game works
- Time passes in ticks of about ten seconds. One action (travel, jump, dock, undock, \
mine, buy, sell, refuel, repair, attack...) is carried out per tick; queries are free.
- An action is mostly answered at once with "queued": what came of it shows a tick \
later, in get_notifications and in the next query. travel and jump take until their \
arrival_tick.
- Without an account, call register with a username and one of the empires solarian, \
voidborn, crimson, nebula, outerrim. With one, call login. Passwords and session ids \
are kept for you: never ask for them, never write them down.
- Undock before you fly. Mine at asteroid belts, sell and refuel while docked at a \
station. Every flight burns fuel: turn back while there is enough left.
- An error tells what is missing. Put that right instead of calling again as before.

## What to do
- Obey orders of the human operator and of the commander first, and say briefly that \
you have heard them. When one is carried out, or cannot be, report it with \
zoea_report_order.
- Otherwise earn credits, keep your ship fuelled and whole, and explore.
- When nothing more can be done this tick, end your turn with one short sentence \
that says what you are waiting for. You are called again.

## Memory
Use the captain's log (captains_log_add, captains_log_list) for what must outlast \
this conversation: goals, good prices, places worth coming back to. Keep entries \
short. What you want before you in every call goes into a note (zoea_note); forget it \
(zoea_forget) when it is no longer true.

## Context & Memory Management
You see only a part of your history. A summary of the game state comes with it: it \
says how old each fact is and what your own actions have made untrue. Trust what is \
fresh there instead of asking again; call a get_ tool when a fact that you need is \
marked as changed or is too old for your decision.
Older messages are kept, but not shown, or shown shortened with a handle such as \
ctx://7/1234. When you need something from earlier:
- zoea_recall with a handle brings back the whole text that it stands for; with \
state://<tool>, such as state://get_map, the newest answer of a get_ tool, without \
asking the game. Long texts come in parts: go on with the offset that is named.
- zoea_search_messages finds what was said and what tools answered, by keyword.
- zoea_search_reasoning finds what you thought at the time, by keyword.
- Use them when an order, a price or a place is mentioned that you cannot see; search \
for one or two telling words, and then again with others before you give up.
- The captain's log holds what you wrote down yourself.
"""

LONGEST_BROADCAST = 1_000
# Characters of an order that a nudge repeats.
LONGEST_ORDER = 80
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def render_prompt(
    text: str, *, name: str, account: str | None, broadcast: str | None
) -> str:
    """Fill in ``{{ name }}``, ``{{ account }}`` and ``{{ broadcast }}``.

    Unknown ones stay, and what is filled in is never read for placeholders (A10).
    """
    # A long broadcast is cut: a search finds the whole, also for who came later.
    if broadcast is not None and len(broadcast) > LONGEST_BROADCAST:
        cut = broadcast[:LONGEST_BROADCAST]
        broadcast = f"{cut}… (cut here: zoea_search_broadcasts finds the whole)"
    values = {
        "name": name,
        "account": account or "none yet",
        "broadcast": broadcast or "none",
    }
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


class OpenOrders(NamedTuple):
    """How many orders a Mysis can report on; of these the named, as number and text.

    Named are the newest, and the oldest that it has not answered yet.
    """

    total: int
    named: list[tuple[int, str]]


def choose_nudge(level: int, orders: str = "") -> str:
    """The prompt to go on: 1 asks, 2 is firmer, 3 and more urgent (W13, P7).

    ``orders`` is what `name_open_orders` says.
    """
    words = NUDGES[min(max(level, 1), len(NUDGES)) - 1]
    return "\n\n".join(filter(None, (words, orders, CRITICAL_REMINDERS)))


def name_open_orders(total: int, named: Sequence[tuple[int, str]]) -> str:
    """The line of a nudge for so many open orders, as of `OpenOrders`; empty for none."""
    if not named:
        return ""
    told = [f'{number} "{_excerpt(text)}"' for number, text in named]
    told += [f"and {total - len(named)} more"] if total > len(named) else []
    return (
        f"{OPEN_ORDERS_LEAD}{'; '.join(told)}. Report on each with zoea_report_order "
        "when it is done, or when it cannot be."
    )


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ORDER else f"{line[: LONGEST_ORDER - 1]}…"
