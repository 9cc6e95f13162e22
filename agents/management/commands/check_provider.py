"""``manage.py check_provider``: whether a provider answers, and how much it can read."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.llm.endpoints import resolve_in
from agents.llm.model_types import Endpoint, ModelError, UnknownProviderError
from agents.llm.provider_check import (
    Check,
    check_endpoint,
    clean_address,
    find_endpoint,
)
from agents.provider_trial import find_lack_of_room, game_tools_are_known
from memory.management.terminal import LightCommand

KEY_WORDS = {
    "accepted": "accepted",
    "refused": "refused",
    "none": "none stored, none sent",
    "unasked": "no key asked for",
    "unknown": "not known",
}
SOURCE_WORDS = {
    "provider": "set at the provider",
    "catalogue": "from the model catalogue",
    "refusal": "named by a refusal",
    "pilot": "the pilot's own",
    "unknown": "nobody tells it; set the window of the provider in the admin",
}


class Command(LightCommand):
    help = (
        "Make one tiny request to a configured LLM provider, and one without its key, "
        "and tell whether it is reachable, takes the key, has the model, how many tokens "
        "that one reads, and whether the prompt and the tools of the game have room. "
        "Exit status 0: good; 1: failed, with the reason; 2: no such provider."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name",
            metavar="NAME",
            help="a provider of the admin, or openai, anthropic, ollama or pilot from "
            "the environment; or a model as a Mysis names it, <provider>:<model>",
        )
        parser.add_argument(
            "--model", default="", help="which model (default: the provider's own)"
        )
        parser.add_argument(
            "--json", action="store_true", help="one JSON object instead of lines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, print the result, and end with its status. Never shows a key."""
        name, model = options["name"].strip(), options["model"].strip()
        try:
            endpoint = find_endpoint(name, model)
        except UnknownProviderError as error:
            raise CommandError(str(error), returncode=2) from None
        except ModelError as error:
            self._report(options["json"], {"provider": name, "ok": False}, error)
            return
        result = check_endpoint(endpoint)
        known = _resolve_again(name, endpoint)
        lack = None if result.error else find_lack_of_room(known)
        found = _as_document(name, result, known)
        found |= {"ok": result.error is None and lack is None}
        if result.error is None and (lack or game_tools_are_known()):
            found["window"]["enough"] = lack is None
        self._report(options["json"], found, result.error or lack)

    def _report(
        self, as_json: bool, found: dict[str, Any], error: ModelError | None
    ) -> None:
        if as_json:
            reason = error and {"reason": error.detail, "remedy": error.remedy}
            self.stdout.write(json.dumps({**found, "error": reason}))
            if error is not None:
                sys.exit(1)
            return
        for line in _as_lines(found):
            self.stdout.write(line)
        if error is not None:
            self.stdout.flush()
            raise CommandError(str(error), returncode=1)


def _resolve_again(name: str, endpoint: Endpoint) -> Endpoint:
    """The endpoint with its window as it is known after the check."""
    try:
        return resolve_in(name, endpoint.model)
    except UnknownProviderError:
        return find_endpoint(endpoint.name, "")


def _as_document(name: str, result: Check, known: Endpoint) -> dict[str, Any]:
    endpoint = result.endpoint
    return {
        "provider": name,
        "kind": endpoint.kind,
        "base_url": clean_address(endpoint),
        "model": endpoint.model,
        "reachable": result.reachable,
        "key": result.key,
        "model_found": result.model_found,
        "window": {
            "tokens": known.window,
            "source": known.window_source,
            "enough": None,
        },
        "latency_ms": result.latency_ms,
    }


def _as_lines(found: dict[str, Any]) -> list[str]:
    if "kind" not in found:
        return []
    window = found["window"]
    source = SOURCE_WORDS.get(window["source"], f"told by the {window['source']}")
    missing = {True: "there", False: "not there", None: "not known"}
    unknown = ", room for the game's tools not known before a first turn"
    room = {True: "", False: ", too few", None: unknown if found["ok"] else ""}
    place = f", {found['base_url']}" if found["base_url"] else ""
    rows = {
        "provider": f"{found['provider']} ({found['kind']}{place})",
        "reachable": "yes" if found["reachable"] else "no",
        "key": KEY_WORDS[found["key"]],
        "model": f"{found['model']}: {missing[found['model_found']]}",
        "window": f"{window['tokens']:,} tokens{room[window['enough']]}, {source}",
        "latency": f"{found['latency_ms']:,} ms",
    }
    return [f"{label:<10} {text}" for label, text in rows.items()]
