"""What travels along the tool chain: tools, who calls, the call, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from jsonschema.protocols import Validator

from agents.events import Line
from agents.game.accounts import ActiveAccount
from agents.llm.model_types import OfferedTool
from agents.models import UnknownOutcome
from memory.context.types import OfferedTools
from memory.gamestate.extract import Result, read_result

NOT_EXECUTED = "Error: game_unreachable: not executed, the game cannot be reached."
INTERRUPTED = "Error: interrupted: outcome unknown. Check the state before repeating."

# Arguments that the account step knows and no model may see or set.
FILLED_IN = frozenset({"session_id", "password", "registration_code"})


@dataclass(frozen=True, slots=True)
class ToolSpec(OfferedTool):
    """One tool as a model may see it, and how its results are kept.

    ``parameters`` is without what the account step fills in (session id, password).
    ``policy`` is one of ``memory.context.types.Policy``.
    """

    policy: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that may be called.

    Of `FILLED_IN` the server lists ``wants`` and requires ``needs``. ``validator`` is
    None for a schema that is none. ``local`` tools are ours and never reach the game.
    """

    spec: ToolSpec
    wants: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    validator: Validator | None = None
    local: bool = False


@dataclass(slots=True)
class ToolSession:
    """One Mysis at the game: its tools, its account, and the secrets to take out.

    ``by`` names the person who calls by hand, "" for the Mysis itself. ``unknown``
    are the actions of its account of which no read has told yet.
    """

    mysis_id: int
    tools: Mapping[str, Tool]
    card: ActiveAccount | None = None
    secrets: set[str] = field(default_factory=set)
    by: str = ""
    unknown: tuple[UnknownOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One call; ``raw`` is the model's JSON text, ``arguments`` what the guard read in it.

    ``offered`` are the tools that the model was offered, None for a call of somebody
    else. ``keep`` stores the outcome for the caller, in the transaction of all that the call
    changes. ``unstored`` answers wait for it, and so do the unknown outcomes that they
    show (``settled``); requests made of this one share both.
    """

    caller: ToolSession
    name: str
    raw: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    keep: Keep | None = None
    offered: OfferedTools | None = None
    unstored: list[Answer] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)

    @property
    def tool(self) -> Tool | None:
        """The tool, None for an unknown one."""
        return self.caller.tools.get(self.name)

    @property
    def own_arguments(self) -> dict[str, Any]:
        """The arguments without what the account step filled in."""
        given = self.arguments
        return {key: value for key, value in given.items() if key not in FILLED_IN}

    @property
    def policy(self) -> str:
        """The tool's policy; an unknown tool counts as a mutation."""
        return self.tool.spec.policy if self.tool else "mutation"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call, one text per content block.

    Errors are outcomes too: their text says what to do. ``tick`` is the game tick named
    in it, ``resolve_tick`` that at which a queued action takes effect (era A), None for
    what is done already. ``unknown`` says that the reply to an action was lost.
    """

    blocks: tuple[str, ...]
    is_error: bool = False
    tick: int | None = None
    resolve_tick: int | None = None
    unknown: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.blocks)

    def read(self) -> Result:
        """What the answer says beside its content."""
        blocks = [{"type": "text", "text": block} for block in self.blocks]
        return read_result(blocks, is_error=self.is_error)


@dataclass(frozen=True)
class Answer:
    """What the game answered, to whom, and when that was asked."""

    request: Request
    outcome: Outcome
    username: str
    asked_at: datetime

    @cached_property
    def result(self) -> Result:
        return self.outcome.read()


Keep = Callable[[Outcome], Sequence[Line]]
"""Stores an outcome and gives the events of that (see `agents.tools.snapshot._store`)."""

CallNext = Callable[[Request], Awaitable[Outcome]]

Step = Callable[[Request, CallNext], Awaitable[Outcome]]


def make_refusal(code: str, message: str) -> Outcome:
    """An error result in the game's own form."""
    return Outcome((f"Error: {code}: {message}",), is_error=True)
