"""What viewers of the Fleet page cost the web process."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack

import psutil
from websockets.exceptions import ConnectionClosed

from bench.footprint import name_of
from bench.pages.visits import SECONDS, Site, Viewer


def watched(site: Site, count: int, seconds: float) -> dict[str, float]:
    """With so many viewers: milliseconds of processor time and bytes to each, a second.

    A viewer loads the page and opens its socket; the page asks for nothing more by
    itself. What opening costs is over before the measuring begins.
    """
    with ExitStack() as opened:
        viewers = [opened.enter_context(site.looking()) for _ in range(count)]
        readers = [threading.Thread(target=_read, args=[one]) for one in viewers]
        for viewer in viewers:
            viewer.recv(timeout=SECONDS)
        for reader in readers:
            reader.start()
        sent = sum(viewer.received for viewer in viewers)
        busy = _processor_seconds()
        time.sleep(seconds)
        busy = _processor_seconds() - busy
        sent = sum(viewer.received for viewer in viewers) - sent
    for reader in readers:
        reader.join()
    return {"busy": 1000 * busy / seconds, "sent": sent / max(1, count) / seconds}


def _read(viewer: Viewer) -> None:
    try:
        while True:
            viewer.recv()
    except ConnectionClosed:
        return


def _processor_seconds() -> float:
    """Of the web servers that this process started."""
    webs = [
        child
        for child in psutil.Process(os.getpid()).children()
        if name_of(child.cmdline()) == "web"
    ]
    if not webs:
        raise RuntimeError("No web process runs.")
    times = [web.cpu_times() for web in webs]
    return float(sum(each.user + each.system for each in times))
