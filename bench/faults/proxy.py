"""A way through the network that can be cut: refused at once, or silent without an end."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

CHUNK = 65536


class Proxy:
    """A context manager: forwards ``port`` of the loopback address to a server.

    ``target`` is a port, or the path of a Unix socket. ``attempts`` counts connections.
    """

    def __init__(self, target: int | Path) -> None:
        self.target = target
        self.attempts = 0
        self._flows = threading.Event()
        self._flows.set()
        self._ends: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        self._serve()
        return self

    def __exit__(self, *error: object) -> None:
        self._flows.set()
        self.refuse()

    def refuse(self) -> None:
        """Cut all connections, and refuse new ones."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in tuple(self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._serve()

    def fall_silent(self) -> None:
        """Forward nothing any more, and tell nobody: as a cable that was pulled."""
        self._flows.clear()

    def speak(self) -> None:
        self._flows.set()

    def _serve(self) -> None:
        listening = self._listening
        threading.Thread(target=self._take_all, args=(listening,), daemon=True).start()

    def _take_all(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            self.attempts += 1
            try:
                far = self._connect()
            except OSError:
                near.close()
                continue
            self._ends |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(
                    target=self._pump, args=(source, sink), daemon=True
                ).start()

    def _connect(self) -> socket.socket:
        if isinstance(self.target, int):
            return socket.create_connection(("127.0.0.1", self.target))
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self.target))
        return far

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._flows.wait()
                sink.sendall(data)
        self._flows.wait()
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._ends.discard(end)
