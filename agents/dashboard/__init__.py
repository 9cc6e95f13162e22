"""What the operator's pages show, read from the database and drawn as HTML.

The pages and the dashboard socket share all of it: a reader loads plain frozen
rows, a template draws them, and the same drawing is sent by either door.
"""

from __future__ import annotations
