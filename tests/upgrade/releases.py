"""The landed releases: their programs out of the history, and databases that they flew.

``python -m tests.upgrade.releases NAME`` flies the fleet of one with its own program and
keeps the database, as it was in mid-flight, in ``tests/golden/upgrade``. To be done for
each release when it has landed; its databases are never made anew.
"""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from bench.processes import ROOT, clean_environment
from tests.upgrade.databases import ENDING, KEPT, KEY
from zoea.postgres import DATABASE, USER
from zoea.postgres.cluster import Cluster

RELEASES = {
    "2026-11-20": "c98d5e79",
    "2026-11-22-morning": "ffdf6438",
    "2026-11-22-night": "570d679f",
    "2026-11-23": "77ba4c5a",
    "2026-11-24": "df82e9f9",
    "2026-11-28": "1fccdea9",
}
"""The commit with which each release ended, the oldest first."""

FLY = ("up", "--port=0", "--myses=2", "--tick=0.5")


def missing_history(commit: str) -> str:
    """Why a release cannot be had from the history here; empty where it can."""
    try:
        found = subprocess.run(
            ["git", "cat-file", "-e", f"{commit}^{{commit}}"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return "git is not installed"
    said = found.stderr.decode().strip()
    return f"no history with {commit} here: {said}" if found.returncode else ""


def unpack(commit: str, folder: Path) -> None:
    """Put the program of a commit into a folder; the repository is only read."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")


def pack_flight(commit: str, folder: Path) -> bytes:
    """Fly the fleet of a release; its database in mid-flight, as compressed SQL."""
    tree, data = folder / "tree", folder / "data"
    unpack(commit, tree)
    environment = clean_environment(data) | {
        "ZOEA_SECRET_KEY": KEY,
        "DJANGO_SETTINGS_MODULE": "zoea.settings",
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "manage.py", *FLY]
    with subprocess.Popen(
        words, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True
    ) as up:
        try:
            assert up.stdout is not None
            while not up.stdout.readline().startswith("Dashboard: "):
                assert up.poll() is None
            flight = [sys.executable, str(Path(__file__).with_name("flight.py"))]
            subprocess.run(flight, cwd=tree, env=environment, check=True)
            return lzma.compress(_dump(data), preset=9 | lzma.PRESET_EXTREME)
        finally:
            up.terminate()


def _dump(data: Path) -> bytes:
    server = Cluster(data)
    where = [f"--host={server.sockets}", f"--username={USER}", DATABASE]
    words = [str(server.programs / "pg_dump"), "--no-owner", *where]
    return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout


def main(name: str) -> None:
    """Keep the database of one release."""
    with tempfile.TemporaryDirectory(prefix="zoea-release-") as folder:
        # PostgreSQL's own user has to pass through it.
        Path(folder).chmod(0o755)
        packed = pack_flight(RELEASES[name], Path(folder))
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}{ENDING}").write_bytes(packed)
    sys.stdout.write(f"{name}: {len(packed):,} bytes\n")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    main(*sys.argv[1:])
