"""Logs for machines: with ``ZOEA_LOG_FORMAT=json`` each line is one JSON object.

What `manage.py up` says and why a command is refused are lines too, and so is an
exception that nobody caught.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from agents.telemetry import describe_place
from memory.redaction import hide_secrets_offline

logger = logging.getLogger("zoea")


class JsonFormatter(logging.Formatter):
    """One object a line: what happened, and where; secrets are masked in all texts."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **describe_place(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        masked = {
            key: hide_secrets_offline(value) if isinstance(value, str) else value
            for key, value in line.items()
        }
        return json.dumps(masked, ensure_ascii=False, default=str)


def is_json_wanted() -> bool:
    """Whether lines are JSON; also before the settings could be read."""
    return os.environ.get("ZOEA_LOG_FORMAT") == "json"


def build_line(text: str, level: int = logging.INFO) -> str:
    """A line of our own as logs have it, for what is said without a logger."""
    if not is_json_wanted():
        return text
    record = logger.makeRecord(logger.name, level, "", 0, text, (), None)
    return JsonFormatter().format(record)


def read_line(line: str) -> str:
    """What a line of a log says, whichever form it has."""
    if line.startswith("{"):
        try:
            return str(json.loads(line)["message"])
        except (ValueError, LookupError):
            pass
    return line


def log_uncaught() -> None:
    """Let warnings and exceptions that nobody caught be lines as well."""
    if is_json_wanted():
        logging.captureWarnings(True)
        sys.excepthook = _log_exception
        threading.excepthook = _log_exception_of_thread


def _log_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logger.critical("Nobody caught an exception", exc_info=(kind, error, trace))


def _log_exception_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _log_exception(args.exc_type, args.exc_value, args.exc_traceback)
