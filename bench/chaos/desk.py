"""The operator's side: a REST client that does not give up, and what it was promised."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2

PATIENCE = 120.0
PAUSE = 0.3


@dataclass
class Desk:
    """Calls whichever web server answers.

    ``promised`` are the texts of messages whose delivery was confirmed, ``unsure``
    those that were sent without anybody answering for them.
    """

    ports: list[int]
    token: str
    promised: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    _keys: Any = field(default_factory=itertools.count)

    def call(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """One request, repeated under its key until a server answers for it."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if method != "GET":
            headers["Idempotency-Key"] = f"chaos-{next(self._keys)}"
        until = time.monotonic() + PATIENCE
        for port in itertools.cycle(self.ports):
            url = f"http://127.0.0.1:{port}/api/v1{path}"
            try:
                with httpx2.Client(timeout=20) as client:
                    answer = client.request(method, url, json=body, headers=headers)
                if answer.status_code < 500 and answer.status_code != 429:
                    return answer
            except httpx2.HTTPError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"nobody answered {method} {path}")
            time.sleep(PAUSE)
        raise AssertionError("an endless cycle ended")

    def must(self, method: str, path: str, body: Any = None) -> Any:
        """The same; raises AssertionError where it is refused."""
        answer = self.call(method, path, body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def write_to(self, name: str, text: str) -> None:
        """Send a message, and keep in mind what became of it."""
        answer = self.call("POST", f"/myses/{name}/message", {"text": text})
        if answer.is_success:
            self.promised.add(text)
        elif answer.json().get("code") == "idempotency_in_progress":
            # The server that had begun it was killed.
            self.unsure.add(text)

    def fleet(self) -> list[dict[str, Any]]:
        """All Myses."""
        found: list[dict[str, Any]] = self.must("GET", "/myses?limit=200")["items"]
        return found
