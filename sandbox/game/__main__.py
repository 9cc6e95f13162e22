"""`python -m sandbox.game`: the game without the product around it."""

from __future__ import annotations

import json
import logging
import os
import sys
from argparse import ArgumentParser
from datetime import UTC, datetime

from sandbox.game.run import HELP, CannotStart, add_arguments, run

logger = logging.getLogger("sandbox.game")


class JsonFormatter(logging.Formatter):
    """One JSON object a line, as the processes around it write them."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def main() -> None:
    """Run until SIGTERM or SIGINT; exit status 2 if it cannot start."""
    is_json = os.environ.get("ZOEA_LOG_FORMAT") == "json"
    if is_json:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
        logger.setLevel(logging.INFO)
        logging.captureWarnings(True)
    parser = ArgumentParser("python -m sandbox.game", description=HELP)
    add_arguments(parser)
    try:
        run(vars(parser.parse_args()), logger.info if is_json else _print)
    except CannotStart as error:
        if is_json:
            logger.error("%s", error)
        else:
            sys.stderr.write(f"{parser.prog}: error: {error}\n")
        sys.exit(2)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
