"""The system account that the server runs as, and what it may reach.

PostgreSQL refuses to run as root. As root the server therefore runs as the
owner of its data, at first a system account made for it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import PostgresError

SYSTEM_USER = "pgserver"


@dataclass(frozen=True)
class Account:
    """User and group of the server; ``switch`` says whether they are not ours."""

    uid: int
    gid: int
    switch: bool

    def subprocess_options(self) -> dict[str, Any]:
        """Return what makes :mod:`subprocess` run a program as this account."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give the folder and all in it to this account, closed to others."""
        path.chmod(0o700)
        if not self.switch:
            return
        os.chown(path, self.uid, self.gid)
        for root, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(Path(root) / name, self.uid, self.gid, follow_symlinks=False)

    def let_through(self, path: Path) -> None:
        """Let this account pass (not list) the folders above ``path``."""
        if not self.switch:
            return
        for folder in path.parents:
            found = folder.stat()
            if found.st_uid == self.uid or found.st_mode & stat.S_IXOTH:
                continue
            folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)


def account_for(folder: Path) -> Account:
    """Return the account that the server of the data in ``folder`` runs as."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    if folder.exists() and (found := folder.stat()).st_uid != 0:
        return Account(found.st_uid, found.st_gid, switch=True)
    entry = _system_user()
    return Account(entry.pw_uid, entry.pw_gid, switch=True)


def ensure_programs_reachable(programs: Path, account: Account) -> None:
    """Make sure that the account can run the server's programs."""
    if not account.switch or _can_run(programs, account):
        return
    account.let_through(programs / "postgres")
    for path in (programs.parent, *programs.parent.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
    if not _can_run(programs, account):
        raise PostgresError(
            f"The system user number {account.uid} cannot run {programs}/postgres:"
            " install Zoea in a folder that other users may enter, or run it as "
            "an ordinary user."
        )


def _can_run(programs: Path, account: Account) -> bool:
    try:
        subprocess.run(  # noqa: S603 - fixed words, no shell
            [programs / "postgres", "--version"],
            check=True,
            capture_output=True,
            cwd="/",
            **account.subprocess_options(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _system_user() -> pwd.struct_passwd:
    for entry in _known(SYSTEM_USER):
        return entry
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program:
        # Another process may be making it at this moment: only the entry counts.
        subprocess.run(  # noqa: S603 - fixed words, no shell
            [
                program,
                "--system",
                "--no-create-home",
                "--home-dir=/",
                "--shell=/usr/sbin/nologin",
                SYSTEM_USER,
            ],
            check=False,
            capture_output=True,
        )
    for entry in (*_known(SYSTEM_USER), *_known("postgres")):
        return entry
    raise PostgresError(
        "PostgreSQL does not run as root, and the system user "
        f"{SYSTEM_USER} could not be made: make it, or run Zoea as an ordinary user."
    )


def _known(name: str) -> Iterator[pwd.struct_passwd]:
    try:
        yield pwd.getpwnam(name)
    except KeyError:
        return
