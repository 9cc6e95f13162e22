"""Programs that talk to the REST API in tests, one per role, or to /mcp."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from zoea.auth import create_token

ROOT = "/api/v1"
# With which a program begins at /mcp, and what it has to accept.
MCP_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MCP_ACCEPT = {"Accept": "application/json, text/event-stream"}


class Program:
    """A client with a bearer token; paths are below ``/api/v1``."""

    def __init__(self, role: str = "admin", name: str = "") -> None:
        _, self.secret = create_token(name=name or f"test {role}", role=role)
        self.client = Client(raise_request_exception=False)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One request; a body is sent as JSON unless it is bytes."""
        raw = body if isinstance(body, bytes) else json.dumps(body)
        return self.client.generic(
            method,
            ROOT + path,
            b"" if body is None else raw,
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.secret}"} | headers,
        )

    def get(self, path: str, **headers: str) -> Any:
        """GET."""
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """POST."""
        return self.call("POST", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        """PATCH."""
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        """DELETE."""
        return self.call("DELETE", path, **headers)
