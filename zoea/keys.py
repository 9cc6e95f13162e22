"""The installation's secret keys: from the environment, else from a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

FILE = "secret.key"


def load_keys(configured: str, data: Path) -> tuple[list[str], bool]:
    """Return the keys, newest first, and whether they will be there next time.

    ``configured`` is the comma-separated ZOEA_SECRET_KEY; when it is empty a
    key file of mode 0600 in the data folder is read, or made.
    """
    keys = [key.strip() for key in configured.split(",") if key.strip()]
    if keys:
        return keys, True
    path = data / FILE
    try:
        return [_read_or_make(path)], True
    except OSError:
        return [secrets.token_urlsafe(48)], False


def _read_or_make(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{FILE}.{os.getpid()}")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            # A link fails if another process was first: its key then counts.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    key = path.read_text().strip()
    if not key:
        raise OSError(f"{path} is empty")
    return key
