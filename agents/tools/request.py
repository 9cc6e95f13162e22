"""What travels along the tool chain: tools, who calls, the call, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from jsonschema.protocols import Validator
from referencing.exceptions import Unresolvable

from agents.events import Line
from agents.game.accounts import ActiveAccount
from agents.llm.model_types import OfferedTool
from agents.models import UnknownOutcome
from memory.context.text import find_safe_cut
from memory.context.tool_calls import check_policy, choose_call_policy
from memory.context.types import OfferedTools
from memory.game_calls import (
    WRAPPER,
    GameCall,
    Route,
    find_route,
    resolve_call,
    resolve_call_text,
)
from memory.gamestate.extract import Result, read_result
from memory.gamestate.values import parse_text, repair_text

# What a call may do; the other policies say what of it is shown.
KINDS = frozenset({"snapshot", "query", "mutation", "drain"})

NOT_EXECUTED = "Error: game_unreachable: not executed, the game cannot be reached."
INTERRUPTED = "Error: interrupted: outcome unknown. Check the state before repeating."

# The bytes of a result that the log keeps, and a model reads: a whole map has 190,000.
LONGEST_RESULT = 256 * 1024

# What a server's schema may raise while arguments are checked by it: references that
# lead nowhere, to no schema or around in a circle, and addresses that are none. Then
# the server is left to check them.
UNUSABLE = (Unresolvable, RecursionError, AttributeError, TypeError, ValueError)

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


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Where a call stands: its result's row of the log, its turn, and which of the
    turn's model calls made it, from 1; None for what it has not."""

    memory: int | None = None
    turn: int | None = None
    call: int | None = None


@dataclass(slots=True)
class ToolSession:
    """One Mysis at the game: its tools, its account, and the secrets to take out.

    ``by`` names the person who calls by hand, "" for the Mysis itself; the program that
    ``polls`` records only calls that bring events. ``unknown``
    are the actions of its account of which no read has told yet, ``doubted`` the tools
    whose answers lost events had put in doubt when it was opened, ``era`` how its game
    carries out actions (`AccountClock`), and ``last_calls`` the rows of its last results
    by command. ``turn`` is the one that the tools were opened for.
    """

    mysis_id: int
    tools: Mapping[str, Tool]
    card: ActiveAccount | None = None
    secrets: set[str] = field(default_factory=set)
    by: str = ""
    unknown: tuple[UnknownOutcome, ...] = ()
    doubted: tuple[str, ...] = ()
    policies: Mapping[str, str] = field(default_factory=dict)
    polls: bool = False
    era: str = ""
    last_calls: Mapping[str, int] = field(default_factory=dict)
    turn: int | None = None

    def find_policy(self, name: str) -> str:
        """What a tool counts as: as set by hand, else as it was found out.

        An unknown tool counts as a mutation.
        """
        tool = self.tools.get(name)
        return self.policies.get(name) or (tool.spec.policy if tool else "mutation")


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
    place: CallPlace = CallPlace()

    @property
    def tool(self) -> Tool | None:
        """The tool, None for an unknown one."""
        return self.caller.tools.get(self.name)

    @property
    def meant(self) -> Tool | None:
        """The tool, or of a call by way of `game` the one that this names."""
        return self.caller.tools.get(self.command.tool)

    @property
    def command(self) -> GameCall:
        """What of the game is called, by whatever tool."""
        if self.arguments:
            return resolve_call(self.name, self.arguments)
        return resolve_call_text(self.name, self.raw)

    @property
    def own_arguments(self) -> dict[str, Any]:
        """The command's arguments without what the account step filled in."""
        given = self.command.arguments
        return {key: value for key, value in given.items() if key not in FILLED_IN}

    @property
    def kind(self) -> str:
        """What the call does: snapshot, query, mutation or drain (A1).

        As set by hand for its command, else as found out; an unknown tool, or action,
        is a mutation. A tool that holds several commands is not made a read by hand.
        """
        return find_kind(self.meant, self.command, self.caller.policies)

    @property
    def is_secret(self) -> bool:
        """Whether arguments and result are hidden: the command's, or the whole tool's."""
        command, by_hand = self.command, self.caller.policies
        if command.unread or command.tool == WRAPPER == self.name:
            return True  # what it names cannot be read: it may be a secret tool
        found = self.meant.spec.policy if self.meant else ""
        told = by_hand.get(command.name), by_hand.get(command.tool)
        return "secret" in (found, *told)

    @property
    def reads_only(self) -> bool:
        """Whether the call changes nothing, so that it may be made twice."""
        return changes_nothing(self.meant, self.command, self.caller.policies)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call, one text per content block.

    Errors are outcomes too: their text says what to do. ``tick`` is the game tick named
    in it, ``resolve_tick`` that at which a queued action takes effect (era A), None for
    what is done already. ``unknown`` says that the reply to an action was lost.
    ``structured`` is the same as values, where the game gives them beside a text.
    """

    blocks: tuple[str, ...]
    is_error: bool = False
    tick: int | None = None
    resolve_tick: int | None = None
    unknown: bool = False
    structured: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.blocks)

    @property
    def kept_text(self) -> str:
        """What the log keeps of it."""
        return cut_result(repair_text(self.text))

    def read(self) -> Result:
        """What the answer says beside its content."""
        if (both := self.with_structure()) is not None:
            return read_result(both)
        blocks = [{"type": "text", "text": block} for block in self.blocks]
        return read_result(blocks, is_error=self.is_error)

    def with_structure(self) -> dict[str, Any] | None:
        """A text and its values as one object; None without values of their own."""
        if self.structured is None or self.is_error:
            return None
        if not isinstance(parse_text(self.text), str):
            return None
        return {"result": self.text, "structuredContent": dict(self.structured)}


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


def find_policy(tool: Tool | None, call: GameCall) -> str:
    """The policy of a call; an unknown tool, or action, counts as a mutation."""
    if tool is None:
        return "mutation"
    if call.grouped:
        return choose_call_policy(call, check_policy(tool.spec.name, tool.spec.policy))
    return tool.spec.policy


def route_command(name: str, tools: Mapping[str, Tool]) -> Route | None:
    """The tool that carries out a command of the game; None where none does."""
    offered = {key: one.spec.parameters for key, one in tools.items() if not one.local}
    return find_route(name, offered)


def find_kind(tool: Tool | None, call: GameCall, by_hand: Mapping[str, str]) -> str:
    """What a call does: as set by hand for its command, else as found out."""
    if (own := by_hand.get(call.name)) in KINDS:
        return str(own)
    if by_hand.get(call.tool) == "mutation":
        return "mutation"
    return find_policy(tool, call)


def changes_nothing(
    tool: Tool | None, call: GameCall, by_hand: Mapping[str, str]
) -> bool:
    """Whether a call only reads; one of an unknown tool does not."""
    if find_kind(tool, call, by_hand) == "mutation":
        return False
    if tool is None or not call.grouped:
        return tool is not None and tool.spec.read_only
    return find_policy(tool, call) in ("snapshot", "query", "drain")


def cut_result(text: str) -> str:
    """A result as long as the log keeps one; the rest is cut, with a note that says so."""
    data = text.encode()
    if len(data) <= LONGEST_RESULT:
        return text
    end = len(data[:LONGEST_RESULT].decode(errors="ignore"))
    kept = text[: find_safe_cut(text, end)]
    return (
        f"{kept}\n[... {len(text) - len(kept):,} characters omitted and not kept: the "
        f"result had {len(data):,} bytes. Ask for less of it.]"
    )


def make_refusal(code: str, message: str) -> Outcome:
    """An error result in the game's own form."""
    return Outcome((f"Error: {code}: {message}",), is_error=True)
