"""`manage.py sandbox` as a process."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from django.core.management import CommandError, call_command

from sandbox.game.gate import MOST_HELD_EACH
from tests.sandbox.remote import connected

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, str(ROOT / "manage.py"), "sandbox"]
ALONE = [sys.executable, "-m", "sandbox.game"]
ANYWHERE = "0.0.0.0"  # noqa: S104 - a name, no binding
SMALL = ["--port", "0", "--systems", "20"]
READY = re.compile(
    r"sandbox game ready at (http://127\.0\.0\.1:\d+/mcp) "
    r"\(tick (\S+) s, era A, 20 systems, seed 1\)\n"
)
TESTABLE = re.compile(
    r"sandbox game ready at (http://127\.0\.0\.1:\d+/mcp) \(tick by hand, era C, "
    r"20 systems, seed 1\); truth at (http://127\.0\.0\.1:\d+)\n"
)


@contextmanager
def started(
    *options: str, says: re.Pattern[str] = READY, command: Sequence[str] = COMMAND
) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """Start the sandbox and give the process with the line it has printed."""
    process = subprocess.Popen(
        [*command, *SMALL, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = says.fullmatch(line)
        assert ready is not None, line
        yield process, ready
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal and give the exit status and the standard error."""
    process.send_signal(number)
    _, complaints = process.communicate(timeout=120)
    return process.returncode, complaints


async def test_it_serves_and_ends_well_with_requests_held(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    with started("--tick", "600", "--state", str(path)) as (process, said):
        async with connected(said[1]) as captain:
            await captain.register("Waiting")
            await captain.call("undock")
            calls = [
                asyncio.create_task(captain.text("dock"))
                for _ in range(MOST_HELD_EACH + 1)
            ]
            # The one too many is refused, so all the others are being held.
            (over,), held = await asyncio.wait(
                calls, return_when=asyncio.FIRST_COMPLETED
            )
            assert over.result().startswith("Error: rate_limited: ")
            status, complaints = await asyncio.to_thread(end, process, signal.SIGTERM)
            for text in await asyncio.gather(*held):
                assert text.startswith("Error: server_closing: ")
    assert (status, complaints) == (0, "")
    assert b"Waiting" in path.read_bytes()


async def test_the_game_alone_is_steered_through_the_truth_port() -> None:
    options = ("--manual", "--truth-port", "0", "--era", "C", "--faults", "delay=0")
    with started(*options, says=TESTABLE, command=ALONE) as (process, said):
        async with connected(said[1]) as captain:
            await captain.register("Steered")
            leaving = asyncio.create_task(captain.call("undock"))
            async with httpx2.AsyncClient(base_url=said[2], timeout=60) as control:
                await control.post("/held")
                stepped = (await control.post("/step")).json()
                assert await leaving == {"action": "undock"}
                true = (await control.get("/truth/Steered")).json()
        assert true["tick"] == stepped["tick"]
        assert true["facts"]["docked_at_base"] is None
        assert await asyncio.to_thread(end, process, signal.SIGINT) == (0, "")


def test_the_game_alone_refuses_in_the_same_words() -> None:
    done = subprocess.run(
        [*ALONE, "--manual"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    complaint = "--manual needs --truth-port, by which the ticks pass."
    assert done.stderr == f"python -m sandbox.game: error: {complaint}\n"


Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Run the command, which refuses, and give its complaint of one line."""
    # The command takes the signals of its process, which here is the tests' own.
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*options: str) -> str:
        with pytest.raises(CommandError) as caught:
            call_command("sandbox", *options)
        complaint = str(caught.value)
        assert "\n" not in complaint
        # Django itself ends with 2 for what its parser refuses.
        assert caught.value.returncode == 2 or "argument --" in complaint
        return complaint

    return run


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--era", "Z"], "argument --era: 'Z' is not offered; choose A, C"),
        (["--manual"], "--manual needs --truth-port"),
        (
            ["--host", ANYWHERE, "--truth-port", "0"],
            f"--truth-port is for tests on this machine and --host {ANYWHERE}",
        ),
        (["--faults", "lost"], "'lost' is no fault; choose from lost-transport"),
        (["--faults", "502=2"], "502 needs a rate from 0 to 1, such as 502=0.02"),
        (["--tick", "0"], "0 is not from 0.01 to 3600"),
        (["--tick", "nan"], "nan is not from 0.01 to 3600"),
        (["--tick", "fast"], "'fast' is not a number"),
        (["--systems", "9"], "9 is not from 10 to 2000"),
        (["--port", "70000"], "70000 is not from 0 to 65535"),
        (["--port", "http"], "'http' is not a whole number"),
        (["--host", "256.0.0.1", "--port", "0"], "Cannot listen on 256.0.0.1"),
    ],
)
def test_bad_options_are_refused(
    refused: Refused, options: list[str], complaint: str
) -> None:
    assert complaint in refused(*options)


def test_what_is_taken_or_of_no_use_is_one_clear_line(
    refused: Refused, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        complaint = refused("--port", port, "--systems", "20")
    assert f"Cannot listen on 127.0.0.1 port {port}" in complaint
    assert "--port" in complaint
    path = tmp_path / "world.json"
    path.write_text("{}")
    assert str(path) in refused(*SMALL, "--state", str(path))
