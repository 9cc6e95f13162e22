"""The data folder and its logs: for their owner alone, also where they were not before."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def ensure_private_folder(folder: Path) -> None:
    """Make the folder where it is missing, and close it to others; raises OSError.

    As root others may still pass through (0711): the database server, which refuses to
    be root, has its folder in it. A folder of somebody else, or one that all may write
    to, such as /tmp, stays as it is.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
        passing = stat.S_IXGRP | stat.S_IXOTH if found.st_uid == 0 else 0
        restrict(folder, FOLDER_MODE | passing)


def read_or_make_token(path: Path, size: int = 48) -> str:
    """The text of a file, which is made of chance where it is missing; raises OSError."""
    ensure_private_folder(path.parent)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    if not path.exists():
        write_private(fresh, secrets.token_urlsafe(size))
        try:
            # The link fails if another process was first: then its token counts.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    restrict(path, FILE_MODE)
    token = path.read_text().strip()
    if not token:
        raise OSError(f"{path} is empty")
    return token


def write_private(path: Path, text: str) -> None:
    """Write a small file for its owner alone; raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, FILE_MODE), "w") as file:
        file.write(text)
    restrict(path, FILE_MODE)


def open_log(path: Path) -> BinaryIO:
    """Open a log to write at its end; its folder is made where it is missing."""
    ensure_private_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
    restrict(path, FILE_MODE)
    restrict(name_old_log(path), FILE_MODE)
    return os.fdopen(descriptor, "ab")


def shorten_log(path: Path, most: int) -> None:
    """Copy a log of more bytes aside and empty it, also while a program writes to it."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > most:
            old = name_old_log(path)
            # Before there is anything in it to read.
            os.close(os.open(old, os.O_WRONLY | os.O_CREAT, FILE_MODE))
            restrict(old, FILE_MODE)
            try:
                shutil.copyfile(path, old)
            except OSError:
                # On a full disk room is worth more than old lines.
                os.truncate(old, 0)
            os.truncate(path, 0)


def name_old_log(path: Path) -> Path:
    return path.with_suffix(".log.1")


def restrict(path: Path, mode: int) -> None:
    """Take away what a mode does not allow."""
    with suppress(FileNotFoundError, PermissionError):
        found = stat.S_IMODE(path.stat().st_mode)
        if found & ~mode:
            path.chmod(found & mode)
