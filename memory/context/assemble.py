"""The pipeline around every strategy: from a stored log to a view ready to send.

Repair and units, strategy, newest order and newest unit, hard budget, state block,
messages, statistics and ledger. Nothing here calls a model, a clock or a store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

from memory.context import registry
from memory.context.budget import (
    SHORT_STATE_BYTES,
    Anchors,
    BudgetImpossible,
    FittedUnits,
    fit_state,
    fit_units,
)
from memory.context.repair import LogReader, RepairedRequest, repair_request
from memory.context.report import LastReport, ViewDraft, report_sent, report_unsent
from memory.context.result_types import Assembly
from memory.context.sections import leave_out_notes
from memory.context.strategy import CommonOptions
from memory.context.types import (
    DIALECTS,
    FALLBACK_STRATEGY,
    STATE_LEFT_OUT,
    STATE_SHORTENED,
    AssemblyRequest,
)
from memory.context.units import (
    Fate,
    Item,
    Plan,
    Unit,
    build_program_unit,
    find_asked_schemas,
    find_schema_items,
    keep_calls,
)

_ORDER = Fate("kept", None, "The newest order; kept beyond what the strategy keeps.")
_NEWEST = Fate("kept", None, "The newest unit; kept beyond what the strategy keeps.")
_MOST_NAMED = 5
_ASKED = Fate("kept", None, "A schema asked for in this turn; kept until it ends.")


@dataclass(slots=True)
class EarlierWork:
    """What one assembly leaves for the next: the log as it was read, and the report.

    Whatever is not the same any more is made anew: a view never depends on it.
    """

    reader: LogReader | None = None
    report: LastReport = field(default_factory=LastReport)


def assemble(request: AssemblyRequest, earlier: EarlierWork | None = None) -> Assembly:
    """The view of one call of one Mysis, with ledger, statistics and reasons.

    Every log gives a result, `budget_impossible` among them. A strategy that is gone,
    misconfigured or failing is replaced by the window, and the result says so: check
    what a user gave with `registry.validate_options` first. Another bad field raises
    ValueError naming it. A call goes on from the one before by what that left in
    `earlier`, and gives the same as without.
    """
    if request.dialect not in DIALECTS:
        raise ValueError(f'dialect: "{request.dialect}" is not one of {DIALECTS}')
    options, failure = _options(request)
    if earlier is None:
        earlier = EarlierWork(report=LastReport(written=None))
    elif earlier.reader is None or earlier.reader.mysis != request.mysis:
        earlier.report = LastReport()
    reader, earlier.reader = earlier.reader, None
    name = FALLBACK_STRATEGY if failure else request.strategy
    prepared = repair_request(request, options, reader, name)
    earlier.reader = prepared.reader
    if prepared.is_empty():
        return report_unsent(prepared, None)
    try:
        return _build_or_fall_back(prepared, options, failure, earlier.report)
    except BudgetImpossible as error:
        # Also where the view itself would do, but for what its notes cut.
        if request.notes:
            return _leave_out_notes(request, earlier)
        return report_unsent(prepared, error)


def _leave_out_notes(request: AssemblyRequest, earlier: EarlierWork) -> Assembly:
    """The view without notes: what an agent noted never keeps it from being asked."""
    bare = assemble(replace(request, notes=()), earlier)
    bare.warnings.append("The notes were left out to fit the budget.")
    return replace(bare, notes=leave_out_notes(request))


def _options(request: AssemblyRequest) -> tuple[CommonOptions, str]:
    """The strategy's options, or the common ones and why it cannot be used."""
    try:
        return registry.validate_options(request.strategy, request.options), ""
    except ValueError as error:
        return CommonOptions(), str(error)


def _build_or_fall_back(
    prepared: RepairedRequest, options: CommonOptions, failure: str, last: LastReport
) -> Assembly:
    """The strategy's view, or the window's where the strategy or its view fails."""
    name = prepared.request.strategy
    if not failure:
        try:
            return _build_view(prepared, name, options, last)
        except BudgetImpossible:
            raise
        except Exception as error:
            if name == FALLBACK_STRATEGY:
                raise
            failure = f"{name} failed ({type(error).__name__}: {error})"
        # The window has the notes elsewhere than some other strategies.
        prepared = repair_request(
            prepared.request, options, prepared.reader, FALLBACK_STRATEGY
        )
    common = {each.name: getattr(options, each.name) for each in fields(CommonOptions)}
    safe = registry.validate_options(FALLBACK_STRATEGY, common)
    said = prepared.sanitize(failure)[:300]
    return _build_view(prepared, FALLBACK_STRATEGY, safe, last, said)


def _build_view(
    prepared: RepairedRequest,
    name: str,
    options: CommonOptions,
    last: LastReport,
    failure: str = "",
) -> Assembly:
    history = prepared.build_history()
    plan = registry.find_strategy(name).run(history, options)
    kept = _anchor(plan, prepared)
    room = _reserve_state(prepared) if options.state_block else 0
    fitted = fit_units(kept.units, kept.anchors, prepared.frame, history, room)
    units = prepared.frame.seams.fill(fitted.units)
    warnings = [*plan.warnings, *_warn_of_allow(prepared.request)]
    if options.state_block:
        units = _add_state(units, plan, fitted, prepared, warnings)
    if prepared.request.notes:
        _check_order_whole(units, prepared)
    fates = (prepared.repaired.capped, plan.fates, kept.fates, fitted.fates)
    draft = ViewDraft(plan, units, fates, fitted.over_budget, warnings, failure)
    return report_sent(prepared, draft, last)


def _warn_of_allow(request: AssemblyRequest) -> list[str]:
    """What is wrong in the list of allowed tools: a typo takes tools away unseen."""
    unfit = request.offered.unfit if request.offered else ()
    if not unfit:
        return []
    named = ", ".join(f'"{each}"' for each in unfit[:_MOST_NAMED])
    more = len(unfit) - _MOST_NAMED
    also = f" and {more} more" if more > 0 else ""
    return [f"options.allow: no tool fits {named}{also}."]


@dataclass(slots=True)
class _AnchoredPlan:
    """A plan's units with those that no strategy may lose, and their indexes."""

    units: list[Unit]
    anchors: Anchors = field(default_factory=Anchors)
    fates: dict[int, Fate] = field(default_factory=dict)


def _anchor(plan: Plan, prepared: RepairedRequest) -> _AnchoredPlan:
    """Put back in stored order what no strategy may lose (I17, I18).

    That is the newest order, the newest unit, and the schemas asked for in this turn.
    """
    out = _AnchoredPlan(list(plan.units))
    order = None if plan.covers_intent else _newest_order(prepared)
    newest = prepared.units[-1] if prepared.units and not plan.exempt_newest else None
    for unit, fate in ((order, _ORDER), (newest, _NEWEST)):
        if unit is None:
            continue
        if all(known.rows[:1] != unit.rows[:1] for known in reversed(out.units)):
            place = bisect_right(out.units, unit.start, key=lambda other: other.start)
            out.units.insert(place, unit)
            out.fates.update(dict.fromkeys(unit.rows, fate))
    asked = [] if plan.exempt_newest else find_asked_schemas(prepared.units)
    for unit in asked:
        _put_back_schemas(unit, out, prepared)
    wanted = {unit.rows[:1] for unit in asked}
    for index, unit in enumerate(out.units):
        if unit.rows[:1] in wanted:
            out.anchors.asked.append(index)
        if newest is not None and unit.rows[:1] == newest.rows[:1]:
            out.anchors.newest = index
        if order is not None and unit.rows == order.rows:
            out.anchors.intent = index
    return out


def _put_back_schemas(
    unit: Unit, out: _AnchoredPlan, prepared: RepairedRequest
) -> None:
    """Have the unit in the plan, and its schemas as they were."""
    place = bisect_right(out.units, unit.start, key=lambda other: other.start)
    known = out.units[place - 1] if place else None
    wanted = find_schema_items(unit)
    if known is None or known.rows[:1] != unit.rows[:1]:
        unit = _narrow_to_schemas(unit, wanted, out, prepared)
        out.units.insert(place, unit)
    else:
        sent = {item.source: item.content for item in known.items}
        if all(sent.get(item.source) == item.content for item in wanted):
            return
        out.units[place - 1] = unit
    told = (*prepared.repaired.fates, *prepared.repaired.capped, *out.fates)
    out.fates.update(dict.fromkeys(set(unit.sources).difference(told), _ASKED))


def _narrow_to_schemas(
    unit: Unit, wanted: Sequence[Item], out: _AnchoredPlan, prepared: RepairedRequest
) -> Unit:
    """The unit with the calls that brought schemas, where it may be edited (I12).

    Else a larger window, which leaves old results of its others out, would keep less.
    """
    stays = sorted({item.call for item in wanted})
    if unit.signed or unit.pending or len(stays) == len(unit.items[0].calls):
        return unit
    why = "Its calls that asked for no schema are left out."
    out.fates[unit.rows[0]] = Fate("truncated", prepared.request.strategy, why)
    return keep_calls(unit, stays, prepared.count)


def _newest_order(prepared: RepairedRequest) -> Unit | None:
    """The unit of the newest order; None if there is none or it is a pin."""
    intent = prepared.repaired.intent
    if intent is None or intent in prepared.repaired.pins:
        return None
    return next(unit for unit in reversed(prepared.units) if unit.rows == (intent,))


def _check_order_whole(units: Sequence[Unit], prepared: RepairedRequest) -> None:
    """Raise BudgetImpossible where notes stand in a view and an order was cut."""
    order = _newest_order(prepared)
    if order is None:
        return
    texts = {order.items[0].content}
    if prepared.request.mission_id in order.rows:
        texts.add(prepared.sanitize(prepared.request.mission or "").strip())
    sent = (item.content for unit in reversed(units) for item in unit.items)
    if not any(text in content for content in sent for text in texts):
        raise BudgetImpossible("notes", prepared.frame.notes, 0)


def _reserve_state(prepared: RepairedRequest) -> int:
    """The tokens of the state block's short form: old results get no room before it."""
    render = prepared.request.render_state
    if render is None:
        return 0
    size = min(prepared.request.state_bytes, SHORT_STATE_BYTES)
    text = _render_state(prepared, size).strip()
    return prepared.count(text) + prepared.frame.seams.tokens["join"] if text else 0


def _render_state(prepared: RepairedRequest, size: int) -> str:
    """The state block within so many bytes, also where hidden secrets make it longer."""
    render, limit = prepared.request.render_state, size
    while render is not None and limit > 0:
        text = prepared.sanitize(render(limit))
        over = len(text.encode()) - size
        if over <= 0:
            return text
        limit -= over
    return ""


def _add_state(
    units: list[Unit],
    plan: Plan,
    fitted: FittedUnits,
    prepared: RepairedRequest,
    warnings: list[str],
) -> list[Unit]:
    """The units with the state block where the plan puts it, if there is room."""
    render = prepared.request.render_state
    if render is None:
        return units
    room = prepared.frame.room() - fitted.used
    attach = None if fitted.over_budget else plan.attach_state

    def cost(block: str) -> int:
        """What the view grows by, with what joins the block to another message."""
        if attach is None:
            return prepared.count(block) + prepared.frame.seams.tokens["join"]
        return sum(unit.tokens for unit in attach(block)) - fitted.used

    size = prepared.request.state_bytes
    text, cut = fit_state(partial(_render_state, prepared), size, room, cost)
    if cut and prepared.request.notes:
        short = _render_state(prepared, min(size, SHORT_STATE_BYTES)).strip()
        if short and cost(short) > room:
            raise BudgetImpossible("notes", prepared.frame.notes, 0)
    if cut:
        warnings.append(STATE_SHORTENED if text else STATE_LEFT_OUT)
    if not text:
        return units
    if attach is not None:
        return list(attach(text))
    return [*units, build_program_unit(text, prepared.count(text), "state")]
