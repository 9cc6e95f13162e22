"""The ASGI application: pages, REST and MCP over HTTP, two WebSockets.

Run it under Daphne with ``--websocket_timeout -1``: sockets stay open for days,
and Daphne's default would close them after one. Daphne's own ``--ping-interval``
(20 s unless said otherwise) sends the WebSocket pings.
"""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
pages = get_asgi_application()

# These modules import models, which are loaded only now.
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from agents.consumers.dashboard import DashboardConsumer  # noqa: E402
from agents.consumers.event_stream import EventStream  # noqa: E402
from zoea import daphne, mcp, websockets  # noqa: E402

daphne.install_flow()
daphne.install_upload_limit()

sockets = URLRouter(
    [
        path("ws/v1/events", EventStream.as_asgi()),
        path("ws/dashboard/", DashboardConsumer.as_asgi()),
        # Without this a wrong address leaves a traceback in the log.
        re_path(r"", websockets.Refuse.as_asgi()),
    ]
)
application = ProtocolTypeRouter(
    {
        "http": mcp.with_mcp(pages),
        "websocket": daphne.with_flow(
            websockets.with_origin_check(
                websockets.with_busy_close(
                    AuthMiddlewareStack(websockets.with_caller(sockets))
                )
            )
        ),
    }
)
