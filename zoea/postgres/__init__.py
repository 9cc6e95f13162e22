"""The embedded PostgreSQL: a real server in the data folder, shared by users.

Importing this starts nothing. Whoever needs the database (``manage.py``, the
tests, ``manage.py up``) calls :func:`acquire`; the last one to release stops
the server.
"""

from __future__ import annotations

from .errors import PostgresError
from .paths import DATABASE, USER, data_directory, socket_directory
from .sharing import EmbeddedPostgres, acquire

__all__ = [
    "DATABASE",
    "USER",
    "EmbeddedPostgres",
    "PostgresError",
    "acquire",
    "data_directory",
    "socket_directory",
]
