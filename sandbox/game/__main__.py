"""`python -m sandbox.game`: the game without the product around it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from functools import partial

from sandbox.game.run import HELP, CannotStart, add_arguments, run


def main() -> None:
    """Run until SIGTERM or SIGINT; exit status 2 if it cannot start."""
    parser = ArgumentParser("python -m sandbox.game", description=HELP)
    add_arguments(parser)
    try:
        run(vars(parser.parse_args()), partial(print, flush=True))
    except CannotStart as error:
        sys.stderr.write(f"{parser.prog}: error: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
