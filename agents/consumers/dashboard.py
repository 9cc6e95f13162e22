"""The dashboard's socket: HTML fragments to the browser, nothing back.

Commands are posted as forms; a frame from a client is ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs
from weakref import WeakValueDictionary
from zlib import crc32

from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import timezone
from django.utils.safestring import SafeString

from agents import events
from agents.dashboard import fleet, orders
from agents.dashboard.compare import CompareView
from agents.dashboard.lanes import LanesView
from agents.dashboard.live import fragments, pages
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.context_page import ContextPage
from agents.dashboard.live.events_page import EventFilter, EventsPage
from agents.dashboard.live.fleet_page import FleetPage
from agents.dashboard.live.mysis_page import PENDING, MysisPage
from agents.dashboard.live.pages import LivePage, OrdersPage, TimedPage
from agents.dashboard.live.turn_page import TurnPage, find_turn
from agents.dashboard.time_axis import TimeSpan
from agents.dashboard.yield_board import YieldView
from agents.db import run_for_socket
from agents.hub import Viewer, ViewerOverflowError, hub, sockets
from agents.models import Mysis
from agents.order_status import STATES
from memory.handles import parse_id
from memory.redaction import hide_secrets_in_page

# Seconds from the start of one flush to that of the next: at least so many (SURFACES 3).
# After a flush there is as much rest as it took, up to a limit, so that a busy server
# has time for all else. What comes after a quiet time is sent at once.
SOONEST, LONGEST_REST = 0.25, 1.0
# Characters of a frame that is not kept for other viewers: that of a whole list.
LARGE = 50_000
# Without an event there is a flush after so many seconds.
BEAT = 10.0
# Seconds of the periods in each of which all of a page is compared with what is known,
# also without an event.
REDRAW = 30.0
CAP = 60
# How long a flush waits for a browser that does not read.
PATIENCE = 5.0

SIGNED_OUT = 4401
NOT_FOUND = 4404

logger = logging.getLogger(__name__)


class Pace:
    """The moments at which those flush who look at one page: all that wait, at once.

    They have then taken in the same events, and share what is drawn. ``shift``, in
    seconds, keeps pages from all looking again at the same moment.
    """

    def __init__(self, shift: int = 0) -> None:
        self._shift = shift % REDRAW
        self._next: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def find_period(self) -> tuple[int, float]:
        """Which of the periods it is, in each of which all looks again; its rest, in s."""
        number, passed = divmod(time.monotonic() + self._shift, REDRAW)
        return int(number), REDRAW - passed

    async def wait(self) -> None:
        """Wait for the next moment."""
        loop = asyncio.get_running_loop()
        if self._next is None or self._next.get_loop() is not loop:
            self._next = loop.create_future()
            self._plan(self._next)
        # Whoever goes away takes nobody else along.
        await asyncio.shield(self._next)

    def rest(self, took: float) -> None:
        """Put the next moment off by as much as a flush took that ends now."""
        loop = asyncio.get_running_loop()
        self._due = max(self._due, loop.time() + min(took, LONGEST_REST))
        # Who was faster waits already.
        if self._next is not None and self._next.get_loop() is loop:
            self._plan(self._next)

    def _plan(self, coming: asyncio.Future[None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = coming.get_loop()
        # Never at once: all that the same events woke are to wait by then.
        self._timer = loop.call_at(max(self._due, loop.time()), self._begin, coming)

    def _begin(self, coming: asyncio.Future[None]) -> None:
        if self._next is coming:
            self._next = None
        self._due = max(self._due, coming.get_loop().time() + SOONEST)
        coming.set_result(None)


# By what is shown: a page that takes long to draw holds up no others.
paces: WeakValueDictionary[tuple[str, ...], Pace] = WeakValueDictionary()


def find_pace(params: Mapping[str, str]) -> Pace:
    """The pace of all who look at one page, of one Mysis or turn where it is of one."""
    shown = tuple(params.get(name, "") for name in ("page", "mysis", "turn"))
    return paces.setdefault(shown, Pace(shift=crc32(repr(shown).encode())))


class DashboardConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """``?page=fleet`` with the page's filters, or what else ``PAGES`` names."""

    page: LivePage
    pace: Pace
    viewer: Viewer
    task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept, then judge: a browser cannot read why a handshake failed."""
        await self.accept()
        caller = self.scope.get("caller")
        if caller is None or not caller.session:
            await self.close(code=SIGNED_OUT)
            return
        query: bytes = self.scope["query_string"]
        page = await run_for_socket(make_page, query)
        if page is None:
            await self.close(code=NOT_FOUND)
            return
        self.page = page
        self.pace = find_pace(read_params(query))
        sockets.open["dashboard"] += 1
        self.task = asyncio.create_task(self._run(), name="dashboard")

    async def disconnect(self, code: int) -> None:
        if self.task is not None:
            sockets.open["dashboard"] -= 1
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        # Subscribed before the snapshot is read, so nothing falls in between.
        self.viewer = await hub.subscribe()
        try:
            begun = self.viewer.position
            await self._send(lambda: self.page.draw_all(begun))
            await self._follow(Dirty())
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("The dashboard's socket failed.")
            await self.close(code=1011)
        finally:
            hub.unsubscribe(self.viewer)

    async def _follow(self, dirty: Dirty) -> None:
        period, left = self.pace.find_period()
        while True:
            if not dirty:
                await self._gather(dirty, min(BEAT, left))
            await self.pace.wait()
            self._take_in(dirty)
            # All viewers look again in the same flush, so that it is done once.
            number, left = self.pace.find_period()
            if number != period:
                period, dirty.everything = number, True
            await self._flush(dirty)

    async def _gather(self, dirty: Dirty, seconds: float) -> None:
        """Wait for an event, at most so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                _, item = await self.viewer.next()
                dirty.add(item)
        except TimeoutError:
            return
        except ViewerOverflowError:
            # Some events were missed: the database knows how things stand.
            hub.unsubscribe(self.viewer)
            self.viewer = await hub.subscribe()
            dirty.everything = True

    def _take_in(self, dirty: Dirty) -> None:
        """Take in all events that came meanwhile."""
        while not self.viewer.queue.empty():
            dirty.add(self.viewer.queue.get_nowait()[1])

    async def _takes_more(self) -> bool:
        """Whether the browser reads, now or before long."""
        flow: Any = self.scope.get("flow")
        if flow is None or flow.is_open:
            return True
        try:
            await asyncio.wait_for(flow.drained(), PATIENCE)
        except TimeoutError:
            return False
        return True

    async def _flush(self, dirty: Dirty) -> None:
        if not await self._takes_more():
            # Frames would only pile up here; later one says how things stand.
            dirty.everything = True
            return
        taken = dirty.hand_out(CAP)
        begun = time.monotonic()
        try:
            await self._send(lambda: _draw(self.page, taken))
        except asyncio.CancelledError:
            raise
        except Exception:
            # Closing here would make every open tab blink and reconnect.
            logger.exception("A dashboard flush failed; the next one repairs it.")
            dirty.everything = True
        self.pace.rest(time.monotonic() - begun)

    async def _send(self, make: Callable[[], list[SafeString]]) -> None:
        def frame() -> str:
            # To the second, as it is shown: then it is drawn once for all viewers.
            now = timezone.now().replace(microsecond=0)
            clock = fragments.swap_fragment(fragments.draw_clock(now))
            return hide_secrets_in_page("\n".join([*make(), clock]))

        text = await run_for_socket(frame)
        flow: Any = self.scope.get("flow")
        # Encoded once for all viewers that get it.
        if flow is None or len(text) > LARGE or not flow.send(text):
            await self.send(text_data=text)


def _draw(page: LivePage, taken: Dirty) -> list[SafeString]:
    """What changed on a page, and the alerts that its browser may notify of."""
    return [*page.draw_changes(taken), *fragments.draw_alert_news(taken.alerts)]


Params = Mapping[str, str]


def read_params(query: bytes) -> dict[str, str]:
    """What a socket's address asks for: a ``page`` and what it wants to know."""
    parsed = parse_qs(query.decode("utf-8", "replace"))
    return {"page": "fleet"} | {key: values[-1] for key, values in parsed.items()}


def make_page(query: bytes) -> LivePage | None:
    """The page that a socket's address asks for; None for one that is not there."""
    params = read_params(query)
    make = PAGES.get(params["page"])
    return make(params) if make is not None else None


def _mysis(params: Params) -> LivePage | None:
    """``?mysis=<id>``, with the newest line that the viewer has."""
    mysis = _owner(params)
    if mysis is None:
        return None
    return MysisPage(mysis, parse_id(params.get("after", "")), _waiting(params))


def _context(params: Params) -> LivePage | None:
    """``?mysis=<id>``, with the event and the settings that the reader's is as of."""
    mysis = _owner(params)
    as_of = parse_id(params.get("event", ""))
    if mysis is None or as_of is None:
        return None
    return ContextPage(mysis, as_of, params.get("settings", ""))


def _turn(params: Params) -> LivePage | None:
    """``?turn=<id>``, with the newest line and the newest call that the viewer has."""
    turn = find_turn(parse_id(params.get("turn", "")) or 0)
    if turn is None:
        return None
    after, call = (parse_id(params.get(name, "")) for name in ("after", "call"))
    return TurnPage(turn, after, _waiting(params), call)


def _events(params: Params) -> LivePage:
    """``?kind=<kind>&mysis=<id>``, with the newest event that the viewer has."""
    chosen = EventFilter.read(params.get("kind", ""), parse_id(params.get("mysis", "")))
    after = parse_id(params.get("after", ""))
    return EventsPage(chosen, events.read_settled_end().id if after is None else after)


def _orders(params: Params) -> LivePage:
    """``?state=<state>``: the newest orders."""
    state = params.get("state", "")
    state = state if state in STATES else ""

    def draw() -> fragments.Fragment:
        lines = orders.load_lines(state, most=orders.PAGE)
        return fragments.draw_orders_list(lines, state)

    return OrdersPage(f"orders {state}", draw)


def _order(params: Params) -> LivePage | None:
    """``?order=<number>``: what became of one."""
    number = parse_id(params.get("order", "")) or 0
    if orders.load_order(number) is None:
        return None

    def draw() -> fragments.Fragment:
        found = orders.load_order(number)
        assert found is not None  # noqa: S101 (nothing deletes orders)
        return fragments.draw_order(*found)

    return OrdersPage(f"order {number}", draw)


def _yield(params: Params) -> LivePage:
    """``?by=&since=&sort=``, as the board is asked for."""
    view = YieldView.read(params)
    return TimedPage(
        f"yield?{view.write_query()}", partial(pages.draw_yield_parts, view)
    )


def _lanes(params: Params) -> LivePage:
    """Whom and when, as the page of lanes is asked for."""
    view = LanesView.read(params)
    return TimedPage(
        f"lanes?{view.write_query()}", partial(pages.draw_lanes_parts, view)
    )


def _compare(params: Params) -> LivePage:
    """``?a=<number>&b=<number>``, and when."""
    a, b = (parse_id(params.get(name, "")) or 0 for name in ("a", "b"))
    view = CompareView(a, b, TimeSpan.read(params))
    return TimedPage(f"compare {view}", partial(pages.draw_compare_parts, view))


PAGES: Mapping[str, Callable[[Params], LivePage | None]] = {
    "fleet": lambda params: FleetPage(
        fleet.FleetView.read(params), params.get("rows", ""), params.get("feed", "")
    ),
    "mysis": _mysis,
    "context": _context,
    "turn": _turn,
    "events": _events,
    "order": _order,
    "orders": _orders,
    "health": lambda _: TimedPage("health", pages.draw_health_parts),
    "alerts": lambda _: TimedPage("alerts", pages.draw_alert_parts),
    "yield": _yield,
    "lanes": _lanes,
    "compare": _compare,
    "map": lambda _: TimedPage("map", pages.draw_map_parts),
    "map-arrived": lambda _: TimedPage("map-arrived", pages.draw_map_arrived),
}


def _owner(params: Params) -> Mysis | None:
    return Mysis.objects.filter(pk=parse_id(params.get("mysis", "")) or 0).first()


def _waiting(params: Params) -> list[int]:
    given = params.get("pending", "").split(",")[:PENDING]
    return [number for part in given if (number := parse_id(part)) is not None]
