"""Working an order off: one part after the other, and what came of each.

What is done of an order stands in a note of the pilot's own, which every view shows. So
no part is done twice, whatever the view has lost, and while an order is open no rule but
its own moves the ship: a part that wants the dock and one that wants space follow each
other, and never take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory.context.tool_calls import is_own_tool
from sandbox.pilot import rules_space, situation
from sandbox.pilot.orders import Order
from sandbox.pilot.reading import WAIT_CODES, Called, Heard, Said, as_objects, as_text
from sandbox.pilot.replay import ACTIONS
from sandbox.pilot.rules_account import wait_for_arrival
from sandbox.pilot.situation import WORN_OUT, Call, Decision, Situation
from sandbox.pilot.words import HOLDS, TELLS, Part

REPORT = "zoea_report_order"
NOTE, FORGET, NOTE_NAME = "zoea_note", "zoea_forget", "order"
# What begins the notes on orders that are not the present one.
NEWER = "A newer order came"
UNREAD = "I do not understand this order"
# What begins the last words on an order that cannot be reported.
DONE, NOT_DONE = "Done: ", "Not done: "
# Own actions after which a part that brought nothing is given up.
PATIENCE = 60
# In the note: a part that was done, one that was not, and what was so before it.
_GOOD, _BAD, _BEFORE = "+ ", "- ", "= "
_EXCERPT = 80


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a part, and whether it is what was asked for."""

    ok: bool
    words: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an order is: the results, what is next, and what was so before that.

    Without a decision and not ``finished`` the standing mission does what is next.
    """

    results: tuple[Result, ...]
    finished: bool
    decision: Decision | None = None
    before: str = ""

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    @property
    def words(self) -> str:
        return " ".join(result.words for result in self.results)


def is_of(whole: str, beginning: str) -> bool:
    """Whether an order begins as a nudge names it."""
    return " ".join(whole.split()).startswith(beginning.rstrip("…"))


def is_over(s: Situation, order: Order) -> bool:
    """Whether there is nothing more to do for an order.

    The tool to report with is offered as long as any order is open.
    """
    if any(map(_ends, order.calls())):
        return True
    if REPORT in s.tools:
        # What is open may be a newer word alone, which the next nudge names.
        named = [text for _, text in s.transcript.open_orders]
        return order.unread and not any(is_of(order.text, each) for each in named)
    if any(map(is_own_tool, s.tools)):
        return not _is_new(s, order)
    said = [entry.text for entry in order.entries if isinstance(entry, Said)]
    return order.answered or any(DONE in each or NOT_DONE in each for each in said)


def _ends(call: Called) -> bool:
    """Whether a call reported the end of the present order."""
    note = str(call.arguments.get("note"))
    ends = call.name == REPORT and call.arguments.get("status") != "working"
    return ends and not call.answer.is_error and not note.startswith((NEWER, UNREAD))


def follow_order(s: Situation) -> Decision | None:
    """Do the next part of the newest order; one that is over leaves the mission."""
    order = s.order
    if order is None:
        return None
    if is_over(s, order):
        rest = Decision((), "I hold until the next order.", "I was told to wait.")
        return rest if order.holds else None
    progress = work_off(s, order)
    if progress.finished:
        said = f"{DONE if progress.ok else NOT_DONE}{progress.words}"
        return Decision(text=said, thought="Nothing of my order is left to do.")
    return progress.decision


def work_off(s: Situation, order: Order) -> Progress:
    """What is done of an open order, and the next step."""
    results, before = _read_note(s, order)
    while len(results) < len(order.parts):
        task = _Task(s, order, order.parts[len(results)], before)
        step = task.run()
        if not isinstance(step, Result):
            return Progress(tuple(results), False, step, task.before)
        results.append(step)
        before = ""
    return Progress(tuple(results), True)


# --- The note


def with_progress(s: Situation, decision: Decision) -> Decision:
    """Note what has been done since the last note, and say it, beside the next calls."""
    order = s.order
    if order is None or not decision.calls or NOTE not in s.tools:
        return decision
    if is_over(s, order) or any(call.name == REPORT for call in decision.calls):
        return decision
    progress = work_off(s, order)
    known, before = _read_note(s, order)
    fresh = progress.results[len(known) :]
    if not fresh and progress.before == before:
        return decision
    marks = [f"{_GOOD if one.ok else _BAD}{one.words}" for one in progress.results]
    was = [f"{_BEFORE}{progress.before}"] if progress.before else []
    text = "\n".join([_excerpt(order), *marks, *was])
    said = " ".join(one.words for one in fresh)
    note = Call(NOTE, {"name": NOTE_NAME, "text": text})
    return replace(
        decision,
        calls=(note, *decision.calls),
        text=f"{said} {decision.text}".strip(),
    )


def _read_note(s: Situation, order: Order) -> tuple[list[Result], str]:
    """The results that the note on this order tells, and what was so before the next."""
    head, *lines = s.transcript.note.splitlines() or [""]
    noted = any(call.name == NOTE for call in order.calls())
    if head != _excerpt(order) or (_is_new(s, order) and not noted):
        return [], ""
    told = [
        Result(line.startswith(_GOOD), line[len(_GOOD) :])
        for line in lines
        if line.startswith((_GOOD, _BAD))
    ]
    before = next((line for line in lines if line.startswith(_BEFORE)), "")
    return told[: len(order.parts)], before.removeprefix(_BEFORE)


def _is_new(s: Situation, order: Order) -> bool:
    """Whether it was heard in this turn: a note is then on an older one of the same words."""
    first = s.transcript.turn[0] if s.transcript.turn else None
    return isinstance(first, Heard) and first.text == order.text


def _excerpt(order: Order) -> str:
    return " ".join(order.text.split())[:_EXCERPT].strip()


# --- The parts


@dataclass(slots=True)
class _Task:
    """One part under way; ``before`` is what was so when its action began."""

    s: Situation
    order: Order
    part: Part
    before: str

    def run(self) -> Result | Decision | None:
        """Its result, else the next step; None where that is the mission's."""
        if not self.part.kind:
            return Result(False, situation.describe_unread(self.part))
        do = _TASKS[self.part.kind]
        moves = self.part.kind not in (*HOLDS, *TELLS)
        waits = wait_for_arrival(self.s) if moves else None
        step = waits or do(self)
        if step is not None or self.part.kind in _OF_MISSION:
            gone_on = sum(call.name in ACTIONS for call in self.calls())
            lost = isinstance(step, Decision) and gone_on > PATIENCE
            return self.fail(f"not in {gone_on} actions") if lost else step
        return self._explain()

    def calls(self) -> list[Called]:
        """The calls for this part: those since the last note on the order."""
        made = self.order.calls()
        noted = [
            at
            for at, call in enumerate(made)
            if call.name == NOTE and call.arguments.get("name") == NOTE_NAME
        ]
        # The note that tells what was so before is made with the part's own action.
        return made[noted[-1] + 1 :] if noted else made

    def accepted(self, *tools: str) -> list[Called]:
        return [
            call
            for call in self.calls()
            if call.name in tools and not call.answer.is_error
        ]

    def _explain(self) -> Result | Decision:
        """Why there is no next step; it tries once more where it was refused just now."""
        refused = [
            call
            for call in self.calls()
            if call.answer.is_error and call.answer.code not in WAIT_CODES
        ]
        now = self.s.transcript.calls_of_turn()
        for call in reversed(refused):
            times = sum(other.key == call.key for other in refused)
            if times >= WORN_OUT or call.name == "find_route" or call not in now:
                said = call.answer.message[:200].rstrip(".")
                return self.fail(f"{call.name} is refused: {said}")
        if refused:
            text = situation.describe_refusals(refused)
            return Decision(text=text, thought="I try once more in the next tick.")
        return self.fail("I see no way to do it")

    def fail(self, why: str) -> Result:
        return Result(False, f'I cannot do "{self.part.words}": {why}.')

    @property
    def why(self) -> str:
        return f"I am ordered: {self.part.words}."

    def name_place(self) -> str:
        b = self.s.beliefs
        return b.here.name if b.here else b.place.value or "a station"


def _hold(task: _Task) -> Result:
    return Result(True, "I hold.")


def _dock(task: _Task) -> Result | Decision | None:
    s = task.s
    if task.part.kind == "dock" and task.part.target:
        there = _go(task)
        if not isinstance(there, Result) or not there.ok:
            return there
    if asked := s.ask(task.why, "docked"):
        return asked
    if s.beliefs.docked.value:
        return Result(True, f"Docked at {task.name_place()}.")
    return rules_space.go_to_station(s, task.why)


def _undock(task: _Task) -> Result | Decision | None:
    s = task.s
    if asked := s.ask(task.why, "docked"):
        return asked
    return (
        s.act(task.why, "undock")
        if s.beliefs.docked.value
        else Result(True, "Undocked.")
    )


def _go(task: _Task) -> Result | Decision | None:
    s, goal = task.s, task.part.target
    if s.beliefs.place.known and rules_space.is_at(s, goal):
        return Result(True, f"I am at {goal}.")
    searched = task.accepted("search_systems")
    if searched and searched[-1].answer.data.get("total_found") == 0:
        return task.fail(f"I find no place called {goal}")
    return rules_space.go_to(s, goal)


def _sell(task: _Task) -> Result | Decision | None:
    s = task.s
    sold = task.accepted("sell")
    if not sold and rules_space.is_hold_empty(s):
        return Result(True, "There is nothing to sell.")
    step = _dock(task)
    if not isinstance(step, Result):
        return step
    if more := rules_space.sell_cargo(s):
        return more
    return Result(True, _list_sold(sold) if sold else "There is nothing to sell.")


def _list_sold(sold: Sequence[Called]) -> str:
    items = (
        f"{c.arguments.get('quantity')} {c.arguments.get('item_id')}" for c in sold
    )
    return f"Sold {', '.join(items)}."


def _refuel(task: _Task) -> Result | Decision | None:
    return _mend(task, "refuel", "fuel", "Refuelled")


def _repair(task: _Task) -> Result | Decision | None:
    return _mend(task, "repair", "hull", "Repaired")


def _mend(task: _Task, tool: str, fact: str, done: str) -> Result | Decision | None:
    """Fill tank or hull; the level is looked up again once it is done."""
    s = task.s
    level = s.beliefs.fuel if fact == "fuel" else s.beliefs.hull
    shown = f"{fact} {level.value}/{level.most}"
    made = [call for call in task.calls() if call.name == tool]
    if made and not made[-1].answer.is_error:
        if look := s.query("What did it bring?", "get_status"):
            return look
        was = f"{task.before} -> " if task.before else f"{fact} "
        return Result(True, f"{done}: {was}{level.value}/{level.most}.")
    if made and made[-1].answer.code == f"{fact}_full":
        return Result(True, f"Nothing to {tool}: {shown}.")
    step = _dock(task)
    if not isinstance(step, Result):
        return step
    if asked := s.ask(task.why, fact):
        return asked
    mending = s.act(task.why, tool)
    task.before = shown if mending else task.before
    return mending


def _explore(task: _Task) -> Result | Decision | None:
    s = task.s
    if task.accepted("jump"):
        return Result(True, f"Jumped to {s.beliefs.system.value or 'a neighbour'}.")
    return rules_space.explore_neighbour(s, task.why)


def _fill(task: _Task) -> Result | Decision | None:
    b = task.s.beliefs
    full = b.full or bool(b.capacity and (b.used or 0) >= b.capacity)
    return Result(True, "The hold is full.") if full else None


def _work(task: _Task) -> Result | Decision | None:
    """Mine and sell as ever: it is done once that has gone well."""
    if sold := task.accepted("sell"):
        return Result(True, f"Back at work: mined, and s{_list_sold(sold)[1:]}")
    mined = [] if task.part.target else task.accepted("mine")
    where = task.name_place()
    return Result(True, f"Back at work: mining at {where}.") if mined else None


def _report(task: _Task) -> Result | Decision | None:
    s = task.s
    facts = ("place", "docked", "hold", "fuel", "credits")
    return s.ask("A report is wanted.", *facts) or Result(
        True, situation.describe_ship(s)
    )


def _search(task: _Task) -> Result | Decision | None:
    tool, words = "zoea_search_messages", task.part.target
    if tool not in task.s.tools:
        return Result(False, "I have no tool to search my memory with.")
    if found := task.accepted(tool):
        return Result(True, _describe_hits(words, found[-1]))
    thought = f"I am asked about something that I cannot see: {words}."
    return task.s.query(thought, tool, query=words)


def _describe_hits(words: str, call: Called) -> str:
    hits = as_objects(call.answer.data.get("matches"))
    if not hits:
        return f'About "{words}" I find nothing in my memory.'
    last = " ".join((as_text(hits[-1].get("content")) or "").split())
    return f'I find {len(hits)} messages about "{words}". The newest: {last[:200]}'


def _note(task: _Task) -> Result | Decision | None:
    tool, words = "captains_log_add", task.part.target
    if task.accepted(tool):
        return Result(True, f"Noted: {words}")
    return task.s.query("A note for the captain's log.", tool, entry=words)


# Parts whose steps are those of the standing mission.
_OF_MISSION = ("fill", "work")
_TASKS: Mapping[str, Callable[[_Task], Result | Decision | None]] = {
    "hold": _hold,
    "stop": _hold,
    "dock": _dock,
    "undock": _undock,
    "goto": _go,
    "sell": _sell,
    "refuel": _refuel,
    "repair": _repair,
    "explore": _explore,
    "fill": _fill,
    "work": _work,
    "report": _report,
    "search": _search,
    "note": _note,
}
