"""The web application that soon gives up on clients which do not read.

``STALLED`` in the environment says after how many seconds.
"""

from __future__ import annotations

import os

from zoea.asgi import application

# Only now are there applications to import from.
from agents.consumers import event_stream  # isort: skip

event_stream.STALLED = float(os.environ["STALLED"])

__all__ = ["application"]
