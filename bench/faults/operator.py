"""The people around a fleet: who gives orders, and who reads all events."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import httpx2
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

#: How long something is waited for, and how often is looked, in seconds.
PATIENCE, LOOK = 120.0, 0.05
#: How long a request is repeated, and the pause between two tries, in seconds.
REQUEST_PATIENCE, REQUEST_PAUSE = 120.0, 0.3
IN_PROGRESS = "idempotency_in_progress"

T = TypeVar("T")


def wait_until(
    holds: Callable[[], object], what: str, patience: float = PATIENCE
) -> float:
    """Wait for what others do on their own time; how many seconds that took."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience:
            raise RuntimeError(f"{what}: not within {patience:g} s.")
        time.sleep(LOOK)
    return time.monotonic() - begun


def await_some(find: Callable[[], list[T]], what: str) -> list[T]:
    """Wait until something is found; all that was found then."""
    found: list[T] = []

    def search() -> list[T]:
        found[:] = find()
        return found

    wait_until(search, what)
    return found


def is_in_progress(answer: httpx2.Response) -> bool:
    """Whether the first request under this key still runs."""
    return answer.status_code == 409 and answer.json().get("code") == IN_PROGRESS


@dataclass
class Operator:
    """A REST client that does not give up: it calls whichever web server answers.

    ``promised`` are the texts of messages whose delivery was confirmed.
    """

    ports: list[int]
    token: str
    promised: set[str] = field(default_factory=set)
    _keys: Any = field(default_factory=itertools.count)

    def try_request(
        self, method: str, path: str, body: Any = None, *, wait_for_first: bool = False
    ) -> httpx2.Response:
        """One request, repeated under its key until a server answers for it.

        With ``wait_for_first`` also while the first still runs: a machine may be slow.
        """
        headers = {"Authorization": f"Bearer {self.token}"}
        if method != "GET":
            headers["Idempotency-Key"] = f"faults-{next(self._keys)}"
        until = time.monotonic() + REQUEST_PATIENCE
        for port in itertools.cycle(self.ports):
            url = f"http://127.0.0.1:{port}/api/v1{path}"
            try:
                with httpx2.Client(timeout=20) as client:
                    answer = client.request(method, url, json=body, headers=headers)
                is_refused = answer.status_code in (*range(500, 600), 429)
                is_begun = wait_for_first and is_in_progress(answer)
                if not (is_refused or is_begun):
                    return answer
            except httpx2.HTTPError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"nobody answered {method} {path}")
            time.sleep(REQUEST_PAUSE)
        raise AssertionError("an endless cycle ended")

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The same; the body of the answer. Raises AssertionError where it is refused."""
        answer = self.try_request(method, path, body, wait_for_first=True)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def send_message(self, name: str, text: str) -> None:
        """Send a message, and keep whether it was confirmed."""
        if self.try_request(
            "POST", f"/myses/{name}/message", {"text": text}
        ).is_success:
            self.promised.add(text)

    def list_myses(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.request("GET", "/myses?limit=200")["items"]
        return found


class Viewer:
    """A context manager: a program at the event socket, that resumes by its cursor.

    ``seen`` are the events that it was told; ``ends`` why its connections ended.
    """

    def __init__(self, operator: Operator, after: int) -> None:
        self.first = self.newest = after
        self.seen: list[int] = []
        self.ends: list[str] = []
        self._operator = operator
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        headers = {"Authorization": f"Bearer {self._operator.token}"}
        while not self._over.is_set():
            url = f"ws://127.0.0.1:{self._operator.ports[0]}/ws/v1/events"
            address = f"{url}?after={self.newest}"
            try:
                with connect(address, additional_headers=headers) as found:
                    self._read(found)
            except (OSError, WebSocketException) as error:
                self.ends.append(f"{type(error).__name__}: {error}")
            self._over.wait(LOOK)

    def _read(self, found: Any) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                self.newest = json.loads(found.recv(LOOK))["id"]
                self.seen.append(self.newest)

    def await_event(self, number: int) -> float:
        """The seconds until it has been told of an event."""
        return wait_until(lambda: number in self.seen, "an event at the socket")

    def find_missed(self, events: list[int]) -> list[int]:
        """The events up to its newest that it was not told, or not in their order."""
        wanted = events[events.index(self.first) + 1 :]
        # It may be told of more while others look, and of the newest in a moment.
        told = self.seen[: len(wanted)]
        wanted = wanted[: len(told)]
        return [] if wanted == told else sorted(set(wanted) ^ set(told))
