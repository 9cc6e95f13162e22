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

from agents.routing import websocket_urlpatterns  # noqa: E402
from zoea import daphne, mcp, websockets  # noqa: E402

daphne.install_flow()
daphne.install_upload_limit()

application = ProtocolTypeRouter(
    {
        "http": mcp.with_mcp(pages),
        "websocket": daphne.with_flow(
            websockets.with_origin_check(
                websockets.with_busy_close(
                    AuthMiddlewareStack(
                        websockets.with_caller(URLRouter(websocket_urlpatterns))
                    )
                )
            )
        ),
    }
)
