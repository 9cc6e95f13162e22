"""What a large body takes of a running server, and who may send one."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ClassVar

import psutil
import pytest

from bench.processes import Server, run_server
from zoea.auth import create_token

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024
PATH = "/api/v1/context/assemble"
# 16 MB that are five million empty objects.
BRACES = b'{"messages": [' + b"{}," * (16 * MIB // 3) + b"{}]}"


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[Server]:
    """One for these tests alone: others leave memory behind that could be used again."""
    with run_server() as started:
        yield started


def post(
    server: Server, secret: str, body: bytes, path: str = PATH
) -> tuple[int, dict[str, object]]:
    """Status and document of a body that is sent to be assembled, or elsewhere."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"Content-Type": "application/json"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    if answer.status == 503:
        time.sleep(int(answer.headers["Retry-After"]))
        return post(server, secret, body, path)
    return answer.status, said


class Memory:
    """Megabytes of a process while something goes on: before, at most, and after.

    Before is the least that it ever began with: what one test leaves counts for all
    after it, and nothing can hide in it.
    """

    _least: ClassVar[dict[int, int]] = {}

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.most = self.after = self._now()

    def _now(self) -> int:
        return int(self._process.memory_info().rss) // MIB

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at it all the time until the block ends."""
        self.most = self._now()
        known = self._least.get(self._process.pid, self.most)
        self.before = self._least[self._process.pid] = min(known, self.most)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.01):
                self.most = max(self.most, self._now())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self.after = self._now()

    def falls_below(self, most: int) -> bool:
        """Whether it does so in a moment: the last body is freed after its answer."""
        until = time.monotonic() + 60
        while self._now() >= most and time.monotonic() < until:
            time.sleep(0.1)
        self.after = self._now()
        return self.after < most

    def __str__(self) -> str:
        return f"{self.before} MiB, at most {self.most}, then {self.after}"


def history(messages: int, size: int) -> bytes:
    """A document of ordinary messages, with JSON in the texts of some."""
    text = ("The belt of Sol-4 has iron ore — 12 units. " * (size // 40))[:size]
    result = json.dumps({"ok": True, "items": [{"name": text[: size - 40]}]})
    document = [
        {"id": each, "role": "user", "content": result if each % 2 else text}
        for each in range(1, messages + 1)
    ]
    return json.dumps({"messages": document}, ensure_ascii=False).encode()


def test_many_empty_objects_take_no_memory(server: Server) -> None:
    _, secret = create_token(name="operator", role="operator")
    post(server, secret, b'{"messages": []}')
    memory = Memory(server.pid)
    with memory.watched():
        status, said = post(server, secret, BRACES)
        assert (status, said["code"]) == (413, "too_large")
        assert "send" in str(said["detail"])
    assert memory.most < memory.before + 150, str(memory)
    assert memory.falls_below(memory.before + 80), str(memory)


def test_what_strangers_send_takes_no_memory(server: Server) -> None:
    """It is read to the end, so that they can read the answer, but not kept."""
    body = b"x" * 64 * MIB
    assert post(server, "", b"x")[0] == 401
    memory = Memory(server.pid)
    with memory.watched(), ThreadPoolExecutor(16) as together:
        sent = [together.submit(post, server, "", body) for _ in range(8)]
        # A guessed token makes room for a history, until it is looked at.
        sent += [together.submit(post, server, "zoea_x", body) for _ in range(8)]
        assert {each.result()[0] for each in sent} == {401}
    assert memory.most < memory.before + 400, str(memory)
    assert memory.falls_below(memory.before + 50), str(memory)


def test_calls_over_mcp_that_are_all_objects_take_no_memory(server: Server) -> None:
    _, secret = create_token(name="viewer", role="viewer")
    call = (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": [%b1]}}'
    )
    post(server, secret, b"{}", "/mcp")
    memory = Memory(server.pid)
    with memory.watched(), ThreadPoolExecutor(8) as together:
        body = call % (b"{}," * 300_000)
        sent = [together.submit(post, server, secret, body, "/mcp") for _ in range(8)]
        assert {each.result()[0] for each in sent} == {413}
    assert memory.most < memory.before + 150, str(memory)
    assert memory.falls_below(memory.before + 100), str(memory)


def test_a_large_history_is_assembled_and_its_memory_comes_back(
    server: Server,
) -> None:
    body = history(25_000, 2_300)
    assert 60 * MIB < len(body) < 64 * MIB
    _, secret = create_token(name="steward", role="operator")
    post(server, secret, b'{"messages": []}')
    memory = Memory(server.pid)
    with memory.watched():
        assert post(server, secret, body)[0] == 200
    assert memory.most < memory.before + 600, str(memory)
    assert memory.falls_below(memory.before + 150), str(memory)
