"""Command lines of ``manage.py``, each in a process of its own that is ready at once.

Loading the program takes longer than most refusals; so one process loads it and
forks for every command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    status: int
    stdout: str
    stderr: str


class Commands:
    """A context manager; ``run`` gives what a shell would see.

    ``modules`` are loaded once for all of them, ``environment`` is theirs beside that
    of the tests.
    """

    def __init__(self, *modules: str, **environment: str) -> None:
        self._modules, self._environment = modules, environment

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **self._environment},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process that runs them."""
        return self._process.pid

    def run(self, *arguments: str) -> Ended:
        """Run one command line to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


def serve() -> None:
    """Run one command line after the other, as they come by standard input."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    import django

    django.setup()
    for module in sys.argv[1:]:
        import_module(module)
    for line in sys.stdin:
        ended = _run(json.loads(line))
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


def _run(arguments: list[str]) -> dict[str, int | str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            _become(arguments)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    return {"status": status, "stdout": said[0], "stderr": said[1]}


def _become(arguments: list[str]) -> None:
    """Be ``manage.py`` with these arguments; does not return."""
    status: object = 1
    try:
        import manage

        sys.argv = ["manage.py", *arguments]
        manage.main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve()
