"""Which key and which game a database belongs to: who has others takes no turns on it.

One worker with another key or another game would ground the whole fleet: it takes turns
as any other, can log in to no account, and tells the models so.
"""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateWorker

from agents.encryption import opens, reseal, seal
from agents.game.local import read_game_id, read_running_game
from agents.models import Fence
from agents.stored_secrets import opens_any

# What it is does not matter: whoever opens it has the key.
_WORD = "Zoea"
_PORTS = {"http": 80, "https": 443}
# What a local game is called; its id follows.
UNNAMED = "the local game "

OTHER_KEY = (
    "The secrets in this database are sealed under another key: put that one behind the "
    "present one in ZOEA_SECRET_KEY, or its secret.key into the data folder; where it is "
    "lost, run `manage.py rotate_key --forget`, which gives up what it sealed."
)
OTHER_GAME = (
    "The fleet in this database plays {theirs}, and this process would play {ours}: "
    "correct SPACEMOLT_MCP_URL, or, to move the fleet for good, end all that takes turns "
    "and run `manage.py adopt_game` with the settings of the new game."
)
NO_FLEET = (
    "Nothing has taken turns on this database yet: the first process that does says "
    "which game is played."
)
NO_GAME = (
    "No local game has run in this data folder: start `up` here once, or set "
    "SPACEMOLT_MCP_URL."
)
OTHER_TICK = (
    "A tick lasts {ours:g} s here, and {theirs:g} s in the processes at work: give all of "
    "them the same ZOEA_SECONDS_PER_TICK."
)


class FenceError(Exception):
    """This process may take no turns on this database; one sentence with the remedy."""


@transaction.atomic
def enter() -> str:
    """Let a process in that is to take turns; whoever comes first says what counts.

    Returns what is another here than in the processes at work, but keeps nobody out.
    Raises FenceError.
    """
    ours = {"game": name_game(), "seconds_per_tick": settings.ZOEA_SECONDS_PER_TICK}
    rows = Fence.objects.select_for_update()
    fence, fresh = rows.get_or_create(
        pk=Fence.ONLY, defaults={**ours, "key_check": seal(_WORD)}
    )
    if not (opens_any() if fresh else opens(fence.key_check)):
        raise FenceError(OTHER_KEY)
    if fence.game not in ("", ours["game"]):
        raise FenceError(OTHER_GAME.format(theirs=fence.game, ours=ours["game"]))
    theirs = fence.seconds_per_tick
    if theirs != ours["seconds_per_tick"] and _is_somebody_at_work():
        return OTHER_TICK.format(theirs=theirs, ours=ours["seconds_per_tick"])
    rows.filter(pk=Fence.ONLY).update(**ours)
    return ""


def adopt_game() -> tuple[str, str]:
    """Have the fleet play the game of the settings from now on; both games by name.

    Raises FenceError where there is no fleet yet, or no game.
    """
    fence = Fence.objects.filter(pk=Fence.ONLY).first()
    if fence is None:
        raise FenceError(NO_FLEET)
    before, fence.game = fence.game, name_game()
    if fence.game == UNNAMED:
        raise FenceError(NO_GAME)
    fence.save(update_fields=["game"])
    return before, fence.game


@transaction.atomic
def adopt_key(*, forget: bool) -> None:
    """Have the newest key count; one that does not fit only to ``forget`` the former."""
    fence = Fence.objects.select_for_update().filter(pk=Fence.ONLY).first()
    if fence is None or not (forget or opens(fence.key_check)):
        return
    known = opens(fence.key_check)
    fence.key_check = reseal(fence.key_check) if known else seal(_WORD)
    fence.save(update_fields=["key_check"])


def name_game() -> str:
    """What tells the game of this process from every other.

    The address of a local game says nothing: it changes, and is the same on each host.
    """
    running, _ = read_running_game(settings.ZOEA_DATA)
    if settings.ZOEA_GAME_NAMED and running != settings.SPACEMOLT_MCP_URL:
        url = urlsplit(settings.SPACEMOLT_MCP_URL)
        return f"the game at {url.hostname}:{url.port or _PORTS.get(url.scheme, '')}"
    if settings.ZOEA_EMBEDDED_POSTGRES:
        # No other host has this database.
        return "the local game"
    return f"{UNNAMED}{read_game_id(settings.ZOEA_DATA)}"


def _is_somebody_at_work() -> bool:
    since = timezone.now() - timedelta(seconds=settings.ZOEA_STALLED_SECONDS)
    return ProcrastinateWorker.objects.filter(last_heartbeat__gt=since).exists()
