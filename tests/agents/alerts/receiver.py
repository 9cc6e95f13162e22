"""A real HTTP server that keeps what it is told, and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from agents.actions.alerts import save_alert_target
from agents.models import AlertTarget


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def item(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """A context manager; ``statuses`` are answered first, then 200.

    ``arrived`` is set by each request, which waits for ``gate`` if there is one.
    ``port`` is where it listens, 0 for any that is free.
    """

    statuses: list[int] = field(default_factory=list)
    got: list[Received] = field(default_factory=list)
    gate: threading.Event | None = None
    arrived: threading.Event = field(default_factory=threading.Event)
    pause: threading.Event = field(default_factory=threading.Event)
    headers: dict[str, str] = field(default_factory=dict)
    more: threading.Condition = field(default_factory=threading.Condition)
    text: bytes = b"ok"
    port: int = 0

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.got.append(Received(self.path, dict(self.headers), body))
                status = owner.statuses.pop(0) if owner.statuses else 200
                gate = owner.gate
                owner.arrived.set()
                with owner.more:
                    owner.more.notify_all()
                if gate is not None:
                    gate.wait(60)
                try:
                    self.send_response(status)
                    for name, value in owner.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(owner.text)))
                    self.end_headers()
                    self.wfile.write(owner.text)
                except OSError:
                    return

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def await_requests(self, count: int, seconds: float) -> bool:
        """Wait until so many have come; False if they do not."""
        with self.more:
            return self.more.wait_for(lambda: len(self.got) >= count, seconds)

    def count_events(self) -> Counter[int]:
        """How often each event came."""
        return Counter(one.item["id"] for one in self.got)


SECRET = "a secret of ours".replace(" ", "-")


def make_target(url: str, **values: Any) -> AlertTarget:
    values.setdefault("name", "on call")
    values.setdefault("kind", "webhook")
    target = AlertTarget(**values)
    save_alert_target(target=target, url=url, secret=SECRET)
    return target
