"""Strategies by name, from others by entry point, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from memory.context import registry
from memory.context.assemble import assemble
from memory.context.registry import UnknownStrategy
from memory.context.strategy import CommonOptions, OptionError, Strategy, option
from memory.context.types import AssemblyRequest, SummaryWanted
from memory.context.units import Fate, History, Item, Plan, Unit
from tests.context import checks
from tests.context.histories import Log


@dataclass(frozen=True, slots=True)
class LastOptions(CommonOptions):
    share: float = option(0.5, "A share.", minimum=0, maximum=1)


def last(history: History, options: LastOptions) -> Plan:
    """Drops all but the newest unit, also the order, and wants a summary."""
    assert isinstance(options, LastOptions)
    wanted = SummaryWanted(1, 2, [{"role": "user", "content": "Summarise."}])
    return Plan(history.units[-1:], status="compacted", summary_wanted=wanted)


def first(history: History, options: CommonOptions) -> Plan:
    """Keeps only what is oldest."""
    return Plan(history.units[:1])


def torn(history: History, options: CommonOptions) -> Plan:
    """Tears a tool block apart."""
    unit = history.units[-1]
    return Plan((*history.units[:-1], unit.with_items(unit.items[:1])))


def raising(history: History, options: CommonOptions) -> Plan:
    raise RuntimeError("out of ideas")


def alone(history: History, options: CommonOptions) -> Plan:
    """One made-up message for all, which carries the state itself."""

    def attach(state: str) -> tuple[Unit, ...]:
        text = f"All of it.\n\n{state}"
        item = Item("user", text, history.count(text), kind="coalesced")
        return (Unit((item,), -1, required=True),)

    item = Item("user", "All of it.", history.count("All of it."), kind="coalesced")
    fates = {
        row: Fate("coalesced", "alone", "Told in one message.")
        for unit in history.units
        for row in unit.rows
    }
    return Plan(
        (Unit((item,), -1, required=True),),
        fates,
        covers_intent=True,
        exempt_newest=True,
        attach_state=attach,
        compression={"enabled": True, "strategy": "single-user-coalesced"},
    )


def told(history: History, options: CommonOptions) -> Plan:
    """All that the seed promises a strategy of one's own, in one message."""
    asked = history.request
    parts = (
        asked.system,
        asked.mission,
        sorted(asked.tools),
        sorted(asked.data),
        sorted(asked.definitions),
        f"{asked.turns_left}/{asked.max_turns}",
        [unit.role for unit in history.units],
        [call.name for unit in history.units for call in unit.items[0].calls],
    )
    item = Item("user", repr(parts), history.count(repr(parts)), kind="coalesced")
    return Plan((Unit((item,), -1),), covers_intent=True, exempt_newest=True)


@dataclass
class Point:
    name: str
    value: Any

    def load(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


POINTS = (
    Point("last", Strategy("last", last, LastOptions)),
    Point("first", Strategy("first", first)),
    Point("torn", Strategy("torn", torn)),
    Point("raising", Strategy("raising", raising)),
    Point("alone", Strategy("alone", alone)),
    Point("told", Strategy("told", told)),
    Point("broken", ImportError("no such module")),
    Point("thing", object()),
)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def entry_points(group: str, name: str | None = None) -> list[Point]:
        assert group == "zoea.strategies"
        return [point for point in POINTS if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    forget_strategies()
    yield
    forget_strategies()


def forget_strategies() -> None:
    registry.find_strategy.cache_clear()
    registry._plugin_names.cache_clear()


def log() -> Log:
    made = Log()
    made.user("mine iron")
    made.turn("mine", "ore")
    made.turn("mine", "more ore")
    return made


def build(strategy: str, **more: Any) -> Any:
    request = AssemblyRequest(log().done(), strategy=strategy, **more)
    result = assemble(request)
    checks.check_wire(request, result)
    checks.check_shape(result)
    checks.check_ledger(request, result)
    return result


@pytest.mark.parametrize("name", registry.list_names())
def test_every_built_in_strategy_is_complete(name: str) -> None:
    strategy = registry.find_strategy(name)
    assert strategy.name == name
    options = {option.name: option for option in fields(strategy.params)}
    assert {"state_block", "result_cap"} <= set(options)
    assert all(option.metadata["help"] for option in options.values())
    assert registry.validate_options(name, {}) == strategy.params()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStrategy, match=r"\"magic\" is unknown; use one of full"):
        registry.validate_options("magic", {})


def test_a_bad_option_names_itself_and_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"options\.size: unknown .* takes .*window"):
        registry.validate_options("window", {"size": 3})


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_is_found_and_its_options_checked() -> None:
    assert "last" in registry.list_names()
    assert registry.validate_options("last", {"share": 1}) == LastOptions(share=1)
    for bad in (1.5, -0.1, True, "x", float("nan")):
        with pytest.raises(OptionError, match=r"options\.share"):
            registry.validate_options("last", {"share": bad})


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("name", ["broken", "thing"])
def test_a_broken_plug_in_is_a_form_error(name: str) -> None:
    with pytest.raises(UnknownStrategy, match=f'plug-in "{name}"'):
        registry.validate_options(name, {})


@pytest.mark.usefixtures("plugins")
def test_what_a_strategy_forgets_is_put_back() -> None:
    """I17, I18 and I20 hold whatever a strategy does."""
    result = build("last")
    assert result.sources == [1, 4, 5]
    assert result.ledger[1].disposition == "out_of_window"
    assert result.ledger[1].by == "last"
    assert result.status == "compacted"
    assert result.summary_wanted == SummaryWanted(
        1, 2, [{"role": "user", "content": "Summarise."}]
    )


@pytest.mark.usefixtures("plugins")
def test_what_is_put_back_says_which_it_is() -> None:
    reasons = [line.reason for line in build("first").ledger]
    assert reasons[-1].startswith("The newest unit; kept beyond")
    assert build("last").ledger[0].reason.startswith("The newest order; kept beyond")


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raising", "RuntimeError: out of ideas"),
        ("torn", "InvalidView"),
        ("gone", "unknown"),
        ("broken", "no such module"),
    ],
)
def test_a_failing_strategy_is_replaced_by_the_window(name: str, why: str) -> None:
    result = build(name)
    assert result.status == "fallback_used"
    assert why in result.reason
    assert result.stats["strategy"] == name
    expected = assemble(AssemblyRequest(log().done(), strategy="window"))
    assert result.messages == expected.messages


@pytest.mark.usefixtures("plugins")
def test_a_strategy_may_take_the_state_into_its_own_message() -> None:
    result = build("alone", render_state=lambda size: "Fuel: 60/100")
    assert [message["content"] for message in result.messages] == [
        "All of it.\n\nFuel: 60/100"
    ]
    assert result.stats["compression"]["enabled"] is True
    assert [line.disposition for line in result.ledger] == ["coalesced"] * 5


@pytest.mark.usefixtures("plugins")
def test_c9_a_strategy_of_ones_own_is_told_what_the_seed_promises() -> None:
    result = build(
        "told",
        system="Rules.",
        mission="Shop.",
        tools={"search": "q -> r"},
        data={"products": []},
        definitions={"cart": 1},
        turns_left=2,
        max_turns=5,
    )
    assert result.messages[-1]["content"] == (
        "('Rules.', 'Shop.', ['search'], ['products'], ['cart'], '2/5', "
        "['user', 'assistant', 'assistant'], ['mine', 'mine'])"
    )


def test_a_bad_dialect_is_a_clear_error() -> None:
    request = AssemblyRequest(log().done())
    with pytest.raises(ValueError, match="dialect"):
        assemble(replace(request, dialect="gemini"))  # type: ignore[arg-type]


def test_marks_that_cross_are_refused() -> None:
    with pytest.raises(OptionError, match=r"options\.lo: must not be above"):
        registry.validate_options("tiered", {"hi": 0.3, "lo": 0.4})
    assert registry.validate_options("tiered", {"hi": 0.4, "lo": 0.4}) is not None
