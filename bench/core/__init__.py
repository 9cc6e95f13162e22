"""The context core: views of logs, contexts of long histories, ``manage.py assemble``."""

from __future__ import annotations
