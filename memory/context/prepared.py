"""A request read once: what every strategy, also the fallback, works on."""

from __future__ import annotations

from dataclasses import dataclass

from memory.context.blocks import Rules
from memory.context.budget import Frame
from memory.context.caps import cap_results
from memory.context.options import CommonOptions
from memory.context.pins import with_pins
from memory.context.policy import PolicyOf, lookup
from memory.context.repair import repair
from memory.context.secrets import Sanitizer, sanitizer
from memory.context.tokens import Counter, counter_for
from memory.context.types import FILLER_TEXT, NUDGE_TEXT, AssemblyRequest, Message
from memory.context.units import Fate, History, Item, Repaired, Unit


@dataclass(frozen=True, slots=True)
class Prepared:
    """The repaired log with its system message and what surrounds the units."""

    request: AssemblyRequest
    messages: tuple[Message, ...]
    repaired: Repaired
    units: tuple[Unit, ...]
    capped: dict[int, Fate]
    system: Item | None
    frame: Frame
    count: Counter
    policy_of: PolicyOf
    sanitize: Sanitizer
    nudge: str

    def history(self) -> History:
        """What a strategy sees; BudgetImpossible where it could not have a thing."""
        return History(
            units=self.units,
            counted=tuple(self.repaired.counted),
            window=self.request.budget.tokens - self.request.budget.reserve,
            room=self.frame.room(),
            count=self.count,
            policy_of=self.policy_of,
            sanitize=self.sanitize,
            system=self.system,
            request=self.request,
        )

    def is_empty(self) -> bool:
        """Whether there is nothing that a model could be asked to answer.

        A mission is something, where it is read: a coalesced run begins with it.
        """
        request = self.request
        if request.strategy == "coalesced" and (request.mission or "").strip():
            return False
        return not self.units and not self.repaired.pins and request.nudge is None


def prepare(request: AssemblyRequest, options: CommonOptions) -> Prepared:
    """Repair the log, cap its results and render the system message."""
    count = counter_for(request.counter, request.calibration)
    policy_of = lookup(request.tool_policy)
    messages = _in_order(request.messages)
    sanitize = sanitizer(messages, policy_of)
    given = bool(sanitize(request.system or "").strip())
    rules = Rules(count, policy_of, request.dialect, given, sanitize)
    repaired = repair(messages, rules)
    units, capped = repaired.units, dict[int, Fate]()
    if options.result_cap:
        units, capped = cap_results(units, options.result_cap, count, request.mysis)
    base = _base_text(request, repaired, rules)
    system = _system_item(base, request, repaired, rules)
    nudge = sanitize(request.nudge or "").strip() or NUDGE_TEXT
    base_tokens = count(base) if base else 0
    frame = Frame(
        tokens=request.budget.tokens,
        reserve=request.budget.reserve,
        tools=request.tools_tokens,
        system=base_tokens,
        pins=system.tokens - base_tokens if system else 0,
        filler=count(FILLER_TEXT),
        nudge=count(nudge),
    )
    return Prepared(
        request=request,
        messages=messages,
        repaired=repaired,
        units=tuple(units),
        capped=capped,
        system=system,
        frame=frame,
        count=count,
        policy_of=policy_of,
        sanitize=sanitize,
        nudge=nudge,
    )


def _in_order(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """By id, however the rows came (I30); a log in order is not copied."""
    last = -1
    for message in messages:
        if message.id < last:
            return tuple(sorted(messages, key=lambda message: message.id))
        last = message.id
    return messages


def _base_text(
    request: AssemblyRequest, repaired: Repaired, rules: Rules
) -> str | None:
    """The current system prompt: the request's, else the newest stored one."""
    if rules.system_given:
        text = rules.sanitize(request.system or "")
    elif repaired.prompt is not None:
        text = rules.sanitize(repaired.prompt.content)
    else:
        return None
    return None if rules.is_blank(text) else text


def _system_item(
    base: str | None, request: AssemblyRequest, repaired: Repaired, rules: Rules
) -> Item | None:
    """The one system message: the prompt, then the pins; made up unless stored."""
    pinned = (text for _, text in sorted(repaired.pins.items()))
    text = with_pins(base, (*map(rules.sanitize, request.pins), *pinned))
    if text is None:
        return None
    tokens = rules.count(text)
    if repaired.prompt is not None and base:
        return Item("system", text, tokens, repaired.prompt.id)
    return Item("system", text, tokens, kind="prompt")
