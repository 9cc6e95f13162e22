"""``python -m bench NAME``: measure one thing, each figure beside a baseline of the run.

Everything happens on the loopback address and in temporary folders, but the large
databases of ``load`` and the environments of ``peers``, which are made once and kept.
Every process that was started has ended when the run has.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from subprocess import SubprocessError
from types import ModuleType

import psycopg
from rich.console import Console

from bench.figures import (
    Found,
    describe_machine,
    describe_run,
    has_mark,
    rich_table,
    show_steps,
    write_docs,
)
from bench.processes import ROOT, set_up_django
from zoea.postgres import PostgresError

BENCHES = {
    "loop": "bench.loop.compare",
    "turns": "bench.turns",
    "core": "bench.core",
    "surfaces": "bench.surfaces",
    "pages": "bench.pages.costs",
    "load": "bench.load.run",
    "faults": "bench.faults.run",
    "peers": "bench.peers.run",
}
USUAL = ("core", "turns", "surfaces", "pages")
"""What is measured where nothing is named: the others take long."""

DOCS = ROOT / "docs"
#: A terminal has the width that it has; in a file all columns stand side by side.
WIDTH = 190


def read_names(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The benchmarks at the beginning of a command line, and what follows them."""
    count = next((n for n, word in enumerate(words) if word not in BENCHES), len(words))
    return list(words[:count]), list(words[count:])


def read_name(word: str) -> str:
    if word not in BENCHES:
        raise argparse.ArgumentTypeError(
            f"nothing is called {word}: use {' or '.join(BENCHES)}"
        )
    return word


def parse_options(words: Sequence[str]) -> argparse.Namespace:
    """The options of the one benchmark that is named, or those that several take."""
    names, rest = read_names(words)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--docs", action="store_true", help="write its tables into the documents"
    )
    if len(names) == 1:
        module = import_module(BENCHES[names[0]])
        parser.prog, parser.description = f"python -m bench {names[0]}", module.__doc__
        parser.add_argument(
            "--json", type=Path, metavar="FILE", help="write it there too"
        )
        add_options(module, parser)
        options = parser.parse_args(rest, argparse.Namespace(names=names))
    else:
        parser.add_argument("names", nargs="*", type=read_name, metavar="NAME")
        parser.epilog = (
            f"NAME: {', '.join(BENCHES)}; usually {' '.join(USUAL)}. "
            "One NAME alone takes more options."
        )
        options = parser.parse_args(words)
        options.names = options.names or list(USUAL)
    homeless = [name for name in options.names if not has_mark(name, list_pages())]
    if options.docs and homeless:
        parser.error(f"--docs: no page of docs/ has a mark of {', '.join(homeless)}")
    return options


def list_pages() -> list[Path]:
    return sorted(DOCS.glob("*.md"))


def add_options(module: ModuleType, parser: argparse.ArgumentParser) -> None:
    """What this benchmark takes beside the options of all."""
    if hasattr(module, "add_options"):
        module.add_options(parser)


def measure(options: argparse.Namespace, console: Console) -> Found:
    module = import_module(BENCHES[options.names[0]])
    with show_steps(console) as step:
        found: Found = module.measure(options, step)
    return found


def report(found: Found, options: argparse.Namespace, command: str) -> None:
    """Show what was found, and write it where it was asked for."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    said = describe_run(command)
    console.print(said, highlight=False, markup=False)
    for table in found.tables:
        console.print(rich_table(table))
        for note in table.notes:
            console.print(note, highlight=False, markup=False)
    for fault in found.faults:
        console.print(fault, style="red", highlight=False, markup=False, soft_wrap=True)
    if options.json:
        document = {
            "machine": describe_machine(),
            "said": said,
            "found": found.document,
        }
        options.json.write_text(f"{json.dumps(document, indent=2)}\n")
    if options.docs and not write_docs(found.tables, said, list_pages()):
        console.print("No page of docs/ has a mark of these tables.", style="red")


def run_one(words: Sequence[str]) -> int:
    """Run one benchmark in this process, with a data folder of its own."""
    errors = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        set_up_django(Path(folder))
        options = parse_options(words)
        try:
            found = measure(options, errors)
        except KeyboardInterrupt:
            errors.print("bench: ended; what it had started is gone.")
            return 128 + signal.SIGINT
        except (
            OSError,
            PostgresError,
            RuntimeError,
            SubprocessError,
            ValueError,
            psycopg.Error,
        ) as error:
            said = f"bench: {error}"
            errors.print(said, style="red", markup=False, soft_wrap=True)
            return 1
    report(found, options, f"python -m bench {' '.join(words)}")
    return int(bool(found.faults))


def main(words: Sequence[str]) -> int:
    """Run what is named; 1 where something is wrong or could not be measured."""
    # Ends by an exception, so that what was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if len(read_names(words)[0]) == 1:
        return run_one(words)
    options = parse_options(words)
    passed_on = ["--docs"] if options.docs else []
    # Django is set up once in a process.
    return max(
        subprocess.run(
            [*sys.orig_argv[:1], "-m", "bench", name, *passed_on], check=False
        ).returncode
        for name in options.names
    )


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
