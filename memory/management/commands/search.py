"""``manage.py search``: what a Mysis said, was told or thought."""

from __future__ import annotations

import argparse
import html
import json
import unicodedata
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from memory.management.terminal import LightCommand, make_command_error, require_owner
from memory.notes import NoteHit, search_notes
from memory.problems import SlowSearchError
from memory.search.results import Hit, search_messages

MOST_HITS = 100
DEFAULT_LIMIT = 20


def parse_limit(text: str) -> int:
    """A whole number from 1 to 100."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_HITS:
        raise argparse.ArgumentTypeError(f"give a whole number from 1 to {MOST_HITS}")
    return int(text)


class Command(LightCommand):
    """Prints the newest matches, the oldest of them first."""

    help = (
        "Search one Mysis's messages, reasoning or notes: all words of a query ("
        '"two words", -not, or), or with --exact the text letter for letter. Prints '
        "the newest matches, oldest first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mysis", help="Its number or name.")
        parser.add_argument("query")
        parser.add_argument(
            "--in",
            dest="where",
            choices=("messages", "reasoning", "notes"),
            default="messages",
            help="What was said (default), what was thought, or the notes.",
        )
        parser.add_argument(
            "--exact", action="store_true", help="Letter for letter, case told apart."
        )
        parser.add_argument(
            "--ignore-case",
            action="store_true",
            help="With --exact: upper and lower case are one.",
        )
        parser.add_argument(
            "--stem",
            action="store_true",
            help='Words by their English stems: "mining" finds "mined".',
        )
        parser.add_argument(
            "--limit", type=parse_limit, default=DEFAULT_LIMIT, help="At most 100; 20."
        )
        parser.add_argument("--json", action="store_true", help="As a JSON list.")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = require_owner(options["mysis"])
        query = options["query"].replace("\x00", "")
        if not query.strip():
            raise make_command_error("query: is empty; give a word to look for.")
        asked: dict[str, Any] = {
            "query": query,
            "mysis_id": owner.pk,
            "mode": "exact" if options["exact"] else "fts",
            **{name: options[name] for name in ("limit", "ignore_case", "stem")},
        }
        where = options["where"]
        hits: list[Any]
        try:
            if where == "notes":
                hits = search_notes(**asked)
            else:
                hits = search_messages(**asked, reasoning=where == "reasoning")
        except SlowSearchError as error:
            raise make_command_error(f"query: {error.detail}") from error
        hits.reverse()
        if options["json"]:
            found = [_describe(h) for h in hits]
            self.stdout.write(json.dumps(found))
            return
        for hit in hits:
            self.stdout.write(_line(hit))
        if not hits:
            self.stderr.write("No match.")


def _describe(hit: Hit | NoteHit) -> dict[str, Any]:
    shown = asdict(hit) | {"timestamp": hit.timestamp.isoformat()}
    return {key: value for key, value in shown.items() if key != "fits"}


def _line(hit: Hit | NoteHit) -> str:
    at = hit.timestamp.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(hit, NoteHit):
        return f"{hit.handle}  {at}  note  {to_plain_text(hit.snippet)}"
    gone = "  taken back" if hit.taken_back else ""
    said = to_plain_text(hit.snippet)
    return f"{hit.memory_id}  {at}  {hit.role}/{hit.origin}{gone}  {said}"


def to_plain_text(snippet: str) -> str:
    """A snippet for a terminal: one line, without marks or control characters."""
    text = html.unescape(snippet.replace("<mark>", "").replace("</mark>", ""))
    return "".join(
        " " if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign
        for sign in text
    ).strip()
