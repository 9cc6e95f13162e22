"""The WebSocket routes."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path, re_path

from agents.consumers.dashboard import DashboardConsumer
from agents.consumers.event_stream import EventStream


class Nowhere(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Denies a socket that leads nowhere, without a traceback in the log."""

    async def connect(self) -> None:
        """Close before accepting."""
        await self.close()


websocket_urlpatterns = [
    path("ws/v1/events", EventStream.as_asgi()),
    path("ws/dashboard/", DashboardConsumer.as_asgi()),
    re_path(r"", Nowhere.as_asgi()),
]
