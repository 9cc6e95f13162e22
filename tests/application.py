"""The web application as tests start it.

SIGUSR1 makes it forget what it keeps for other viewers; ``STALLED`` in the environment
says after how many seconds it gives up on clients which do not read.
"""

from __future__ import annotations

import os
import signal
from threading import Thread

from zoea.asgi import application

# Only now are there applications to import from.
from tests.flushing import forget_shared  # isort: skip
from zoea import daphne  # isort: skip

if "STALLED" in os.environ:
    daphne.STALLED = float(os.environ["STALLED"])
# In a thread: what the signal interrupts may hold a lock that forgetting needs.
signal.signal(signal.SIGUSR1, lambda *_: Thread(target=forget_shared).start())

__all__ = ["application"]
