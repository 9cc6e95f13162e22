"""The ASGI application: pages, REST and MCP over HTTP, two WebSockets.

Run it under Daphne with ``--websocket_timeout -1``: sockets stay open for days,
and Daphne's default would close them after one. Daphne's own ``--ping-interval``
(20 s unless said otherwise) sends the WebSocket pings.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections

from zoea.json_logs import log_uncaught

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
django.setup(set_prefix=False)
log_uncaught()

# These modules import models, which are loaded only now.
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.sessions import SessionMiddlewareStack  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from agents import process_memory  # noqa: E402
from agents.consumers.dashboard import DashboardConsumer  # noqa: E402
from agents.consumers.event_stream import EventStream  # noqa: E402
from agents.streamed import StreamedAnswer, StreamPlaces  # noqa: E402
from agents.telemetry import telemetry  # noqa: E402
from memory.concurrency import release_connection  # noqa: E402
from memory.problems import Problem  # noqa: E402
from zoea import daphne, mcp, proxies, websockets  # noqa: E402
from zoea.auth import find_user_caller  # noqa: E402
from zoea.views import answer_busy  # noqa: E402

daphne.install()
telemetry.start("web")

# Threads that wait for a request: as many as use the database at once (ZOEA_DB_POOL).
KEPT_THREADS = 20
# Each is made by one of the few threads for what takes long (`agents.db`).
streams = StreamPlaces(4, each=2, seconds=10)


class Pages(ASGIHandler):
    """Django, each request in one thread from the first middleware to the view.

    Django's own handler starts two threads for a request and crosses to the loop and
    back before the view. Here threads are kept for the next request, and with them
    what Django makes anew for a thread.
    """

    def __init__(self) -> None:
        # As the parent does, but without its asynchronous chain.
        super(ASGIHandler, self).__init__()
        self.load_middleware()
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(max_workers=1)
        kept = False
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
            kept = len(self._idle) < KEPT_THREADS
        finally:
            if kept:
                self._idle.append(thread)
            else:
                # Of a request that was cut off it may still work: it ends after that.
                thread.submit(connections.close_all)
                thread.shutdown(wait=False)

    async def get_response_async(self, request: Any) -> Any:
        response = await sync_to_async(self._answer)(request)
        if isinstance(response, StreamedAnswer):
            try:
                await response.begin(streams)
            except Problem as problem:
                response.close()
                return answer_busy(request, problem)
        return response

    def _answer(self, request: Any) -> Any:
        """Answer a request; it holds no connection while the answer is sent.

        A client that reads slowly would hold it for long, and each piece of a stream
        needs another one.
        """
        response = self.get_response(request)
        if isinstance(response, StreamedAnswer):
            caller = getattr(request, "caller", None)
            response.caller = str(caller or find_user_caller(request.user))
        release_connection()
        return response

    async def send_response(self, response: Any, send: Any) -> None:
        try:
            await super().send_response(response, send)
        finally:
            if isinstance(response, StreamedAnswer):
                response.give_back()


sockets = URLRouter(
    [
        path("ws/v1/events", EventStream.as_asgi()),
        path("ws/dashboard/", DashboardConsumer.as_asgi()),
        # Without this a wrong address leaves a traceback in the log.
        re_path(r"", websockets.Refuse.as_asgi()),
    ]
)
application = proxies.with_visitor(
    ProtocolTypeRouter(
        {
            "http": daphne.with_patience(mcp.with_mcp(Pages())),
            "websocket": daphne.with_flow(
                websockets.with_handshake_checks(
                    websockets.with_busy_close(
                        SessionMiddlewareStack(websockets.with_caller(sockets))
                    )
                )
            ),
        }
    )
)
process_memory.freeze_loaded()
