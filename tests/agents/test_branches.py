"""A Mysis goes on from an earlier message: what is after it is never sent again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from agents import actions
from agents.actions import notes, orders
from agents.actions.branches import HAPPENED, plan_branch
from agents.actions.messages import (
    deliver_broadcast,
    finish_shown,
    read_delivery_statuses,
    record_shown,
)
from agents.context_inputs import (
    build_subject,
    preview_context,
    read_inputs,
    vary_subject,
)
from agents.history_import import import_messages
from agents.models import Delivery, Event, ModelCall, Mysis, OrderRecipient
from agents.retention import find_old_messages
from agents.tools.own_tool_answers import (
    Scope,
    answer_recall,
    answer_search_messages,
)
from agents.views.context import assemble_again
from memory.assembly import history_summaries, prepare, replay
from memory.assembly.hashes import hash_span
from memory.assembly.load import TAIL_ROWS
from memory.assembly.log_rows import read_span, to_messages
from memory.assembly.prepare import PreparedRequest, prepare_request
from memory.assembly.turn_reads import TurnReads
from memory.context import registry
from memory.handles import RecallError
from memory.models import AuditEntry, Branch, HistorySummary, Memory, SentContext
from memory.notes import select_notes
from memory.transfer import in_out
from memory.transfer.formats import open_history
from memory.transfer.in_out import write_pieces
from tests.factories import make_memory, make_mysis, make_turn
from tests.fakes.openai import call, check_messages
from zoea.auth import create_token

pytestmark = pytest.mark.django_db
BY = "operator:ann"


@pytest.fixture
def ada() -> Mysis:
    """At rest, with an account of nothing."""
    return make_mysis(name="Ada", state="stopped")


def answer(mysis: Mysis, text: str, *calls: str, **values: Any) -> list[Memory]:
    """An answer of the model, with its calls and their results."""
    made = [call(name, "{}", f"{text}-{place}") for place, name in enumerate(calls)]
    said = make_memory(mysis, role="assistant", content=text, tool_calls=made, **values)
    got = [
        make_memory(
            mysis, role="tool", content=f"{text} got {name}",
            tool_name=name, tool_call_id=one["id"], **values,
        )
        for name, one in zip(calls, made, strict=True)
    ]  # fmt: skip
    return [said, *got]


def talk(mysis: Mysis) -> list[Memory]:
    """A log in which calls, results and messages of people lie in every order."""
    rows = [make_memory(mysis, content="w1x", sender=BY)]
    rows += answer(mysis, "w2x", "dock", "get_ship")
    rows += answer(mysis, "w3x")
    rows.append(make_memory(mysis, content="w4x", sender="mysis:Bo"))
    said, got = answer(mysis, "w5x", "mine")
    # As an import may have it.
    between = make_memory(mysis, content="w6x", sender=BY)
    late = make_memory(
        mysis, role="tool", content="w7x", tool_name="mine", tool_call_id="late"
    )
    said.tool_calls = [*said.tool_calls, call("mine", "{}", "late")]
    said.save()
    rows += [
        said,
        got,
        between,
        late,
        *answer(mysis, "w8x", "undock"),
        *answer(mysis, "w9x"),
    ]
    return rows


def words(rows: list[Memory]) -> set[str]:
    return {f"w{n}x" for n in range(1, 10) if any(f"w{n}x" in r.content for r in rows)}


def shown(mysis: Mysis, **settings: Any) -> str:
    assembly = preview_context(Mysis.objects.get(pk=mysis.pk), **settings).assembly
    return json.dumps([assembly.messages, assembly.system])


def test_at_no_place_a_view_is_torn_or_has_what_was_taken_back(ada: Mysis):
    rows = talk(ada)
    for row in rows[:-1]:
        with transaction.atomic():
            branch = actions.take_branch(mysis=ada, asked=row.pk, text="No.", by=BY)
            kept = [one for one in rows if one.pk <= branch.kept_id]
            assert branch.kept_id >= row.pk
            assert branch.messages == len(rows) - len(kept)
            answered = {one.tool_call_id for one in kept if one.role == "tool"}
            assert answered == {c["id"] for one in kept for c in one.tool_calls}
            for strategy in registry.list_names():
                check_view(ada, strategy, branch, words(rows) - words(kept))
            transaction.set_rollback(True)


def check_view(mysis: Mysis, strategy: str, branch: Branch, gone: set[str]) -> None:
    """The next view is whole, has the correction, and none of these words."""
    view = preview_context(Mysis.objects.get(pk=mysis.pk), strategy=strategy)
    assert view.assembly.stats["status"] != "fallback_used"
    check_messages(list(view.assembly.messages))
    text = json.dumps(view.assembly.messages)
    assert gone
    assert not [word for word in gone if word in text]
    assert f"No.\\n\\n{HAPPENED.format(kept=branch.kept_id)}" in text


@pytest.mark.parametrize("strategy", registry.list_names())
def test_a_view_goes_on_from_no_work_of_what_was_taken_back(ada: Mysis, strategy: str):
    rows = talk(ada)

    def prepared(reads: TurnReads | None) -> PreparedRequest:
        now = build_subject(Mysis.objects.get(pk=ada.pk))
        return prepare_request(vary_subject(now, strategy), reads=reads)

    # Kept in this process, as a worker has it.
    prepared(TurnReads())
    actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    assert prepared(TurnReads()).digest == prepared(None).digest


def test_the_order_that_stands_outlives_one_that_was_taken_back(ada: Mysis):
    rows = talk(ada)
    branch = actions.take_branch(mysis=ada, asked=rows[0].pk, text="No.", by=BY)
    Memory.objects.filter(pk=branch.correction_id).update(
        role="assistant", origin="agent"
    )
    OrderRecipient.objects.all().delete()
    Memory.objects.update(created_at=timezone.now() - timedelta(days=90))
    gone = find_old_messages(timezone.now() - timedelta(days=30), [])
    assert rows[0].pk not in gone
    assert next(row.pk for row in rows if row.content == "w6x") in gone


def test_a_cut_between_a_call_and_its_results_moves_behind_them(ada: Mysis):
    rows = talk(ada)
    said, _, result = rows[1:4]
    cut = plan_branch(ada, said.pk)
    assert (cut.kept, cut.first, cut.messages) == (result.pk, rows[4].pk, len(rows) - 4)
    assert plan_branch(ada, result.pk).kept == result.pk
    late = next(row for row in rows if row.content == "w7x")
    assert (
        plan_branch(ada, next(r.pk for r in rows if r.content == "w6x")).kept == late.pk
    )


def test_what_cannot_be_is_refused_with_words(ada: Mysis):
    first, said, result = [
        make_memory(ada, content="Go."), *answer(ada, "w1x", "dock")
    ]  # fmt: skip
    bo = make_memory(make_mysis(), content="Bo's")
    for asked, code, told in (
        (bo.pk, "invalid", "has no message"),
        (result.pk, "conflict", "nothing comes after it"),
        (said.pk, "conflict", "nothing comes after the results of its calls"),
    ):
        with pytest.raises(actions.ActionError, match=told) as raised:
            actions.take_branch(mysis=ada, asked=asked, text="No.", by=BY)
        assert raised.value.code == code
    with pytest.raises(actions.ActionError, match="text:"):
        actions.take_branch(mysis=ada, asked=first.pk, text=" ", by=BY)
    assert not Branch.objects.exists()
    actions.take_branch(mysis=ada, asked=first.pk, text="No.", by=BY)
    with pytest.raises(actions.ActionError, match="taken back itself"):
        actions.take_branch(mysis=ada, asked=said.pk, text="No.", by=BY)


def test_it_is_stopped_told_and_started_and_everybody_hears_of_it(ada: Mysis):
    rows = talk(ada)
    actions.start_mysis(mysis=ada, by=BY)
    epoch = Mysis.objects.get(pk=ada.pk).epoch
    branch = actions.take_branch(mysis=ada, asked=rows[0].pk, text="Dock.", by=BY)
    ada.refresh_from_db()
    assert (ada.state, ada.epoch, ada.next_job is not None) == (
        "running",
        epoch + 2,
        True,
    )
    said = Memory.objects.get(pk=branch.correction_id)
    assert (said.role, said.origin, said.sender) == ("user", "human", BY)
    assert said.content.startswith("Dock.\n\n(")
    taken = Memory.objects.filter(branch=branch).values_list("pk", flat=True)
    assert set(taken) == {row.pk for row in rows[1:]}
    told = Event.objects.get(kind="mysis.branched").data
    assert (told["from"], told["messages"]) == (rows[0].pk, len(rows) - 1)
    assert AuditEntry.objects.get(action="branch.take").after["text"] == "Dock."


def test_without_a_start_it_stays_stopped(ada: Mysis):
    rows = talk(ada)
    Mysis.objects.update(state="idle")
    actions.take_branch(mysis=ada, asked=rows[0].pk, text="No.", by=BY, start=False)
    ada.refresh_from_db()
    assert (ada.state, ada.next_job) == ("stopped", None)


def give(mysis: Mysis, text: str) -> tuple[int, int]:
    """A new order: its number, and that of its message."""
    Mysis.objects.filter(pk=mysis.pk).update(state="idle")
    order, _ = actions.send_order(myses=[mysis], text=text, by=BY)
    return order.pk, Memory.objects.latest("pk").pk


def show(mysis: Mysis, *messages: int) -> None:
    """A turn is shown these messages."""
    mysis.refresh_from_db()
    turn = make_turn(mysis)
    place = turn.pk, turn.number
    record_shown(mysis, messages, [[*messages]], turn=place, call=1)


def test_orders_of_the_stretch_end_and_those_answered_in_it_are_open_again(ada: Mysis):
    (kept, sell), (done, buy) = give(ada, "Sell ore."), give(ada, "Buy fuel.")
    show(ada, sell, buy)
    first = answer(ada, "w1x")[0]
    finish_shown([sell, buy])
    orders.report_order(mysis=ada, number=done, status="done", note="Fuelled.")
    gone, home = give(ada, "Go home.")
    show(ada, home)
    answer(ada, "w2x")
    before = list(OrderRecipient.objects.order_by("pk").values())
    delivered = list(Delivery.objects.order_by("pk").values())
    at = Memory.objects.filter(mysis=ada, pk__lt=first.pk).latest("pk")
    branch = actions.take_branch(mysis=ada, asked=at.pk, text="No.", by=BY, start=False)
    correction = OrderRecipient.objects.get(memory=branch.correction_id)
    assert dict(OrderRecipient.objects.values_list("order_id", "state")) == {
        kept: "shown",
        done: "shown",
        gone: "superseded",
        correction.order_id: "queued",
    }
    ada.refresh_from_db()
    reached = read_delivery_statuses(ada, [sell, buy])
    assert {one.state for one in reached.values()} == {"shown"}
    inputs = read_inputs(ada)
    assert inputs.open_orders == (sell, buy, branch.correction_id)
    assert inputs.mission_order == (sell, "Sell ore.")
    named = {number for number, _ in inputs.reportable.named}
    assert named == {kept, done, correction.order_id}
    assert "Go home." not in shown(ada, strategy="coalesced")
    actions.undo_branch(branch=branch, by=BY)
    after = OrderRecipient.objects.exclude(pk=correction.pk)
    assert list(after.order_by("pk").values()) == before
    assert list(Delivery.objects.order_by("pk").values()) == delivered
    correction.refresh_from_db()
    assert correction.state == "superseded"


def test_a_broadcast_of_the_stretch_is_no_word_of_the_commander(ada: Mysis):
    first = make_memory(ada, content="Go.", sender=BY)
    Mysis.objects.update(state="idle")
    sent = actions.send_broadcast(text="All home.", by=BY)
    deliver_broadcast(sent.pk)
    ada.refresh_from_db()
    assert read_inputs(ada).broadcast == "All home."
    actions.take_branch(mysis=ada, asked=first.pk, text="No.", by=BY)
    ada.refresh_from_db()
    assert read_inputs(ada).broadcast is None
    assert "All home." not in shown(ada)


def summarise(mysis: Mysis, first: int, through: int) -> HistorySummary:
    before = history_summaries.read_newest_summary(mysis.pk)
    generation = before.generation if before else 0
    digest = hash_span(to_messages(read_span(mysis.pk, first, through)))
    span = history_summaries.Span(mysis.pk, first, through, generation, digest)
    return history_summaries.commit_summary(
        span,
        text=f"summary {generation + 1} of it",
        tokens=(100, 10),
        effort=history_summaries.Effort(1, "m"),
    )


def test_summaries_of_the_stretch_give_way_to_the_one_before(ada: Mysis):
    rows = talk(ada)
    made = [summarise(ada, rows[0].pk, rows[at].pk) for at in (3, 6, 10)]
    before = list(HistorySummary.objects.order_by("pk").values())
    assert plan_branch(ada, rows[5].pk).summaries == (2, 3)
    branch = actions.take_branch(
        mysis=ada, asked=rows[5].pk, text="No.", by=BY, start=False
    )
    assert history_summaries.read_newest_summary(ada.pk) == made[0]
    text = shown(ada, strategy="summary")
    assert "summary 1 of it" in text
    assert "summary 2 of it" not in text
    # One that a turn made of the correction, before it answered.
    summarise(ada, rows[0].pk, branch.correction_id)
    actions.undo_branch(branch=branch, by=BY)
    stands = HistorySummary.objects.filter(pk__in=[one.pk for one in made])
    assert list(stands.order_by("pk").values()) == before
    assert HistorySummary.objects.filter(status="active").count() == 1


def test_a_summary_that_was_under_way_is_outdated(ada: Mysis):
    rows = talk(ada)
    through = rows[6].pk
    digest = hash_span(to_messages(read_span(ada.pk, rows[0].pk, through)))
    span = history_summaries.Span(ada.pk, rows[0].pk, through, 0, digest)
    actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    with pytest.raises(history_summaries.Outdated):
        history_summaries.commit_summary(
            span, text="x", tokens=(9, 1), effort=history_summaries.Effort(1, "m")
        )


def test_notes_that_it_wrote_in_the_stretch_are_set_back(ada: Mysis):
    def note(name: str, text: str, by: str = "mysis:Ada") -> None:
        notes.save_note(mysis=ada, name=name, text=text, by=by)

    for name in ("base", "lost", "people"):
        note(name, f"{name} of old")
    first = make_memory(ada, content="Go.")
    answer(ada, "w1x")
    note("base", "base of new")
    note("new", "new of new")
    notes.forget_note(mysis=ada, name="lost", by="mysis:Ada")
    note("people", "people by Ann", BY)

    def texts() -> dict[str, str]:
        return dict(select_notes(ada.pk).values_list("name", "text"))

    before = texts()
    branch = actions.take_branch(
        mysis=ada, asked=first.pk, text="No.", by=BY, start=False
    )
    assert texts() == {
        "base": "base of old",
        "lost": "lost of old",
        "people": "people by Ann",
    }
    actions.undo_branch(branch=branch, by=BY)
    assert texts() == before


def test_undo_while_nothing_came_after_and_not_later(ada: Mysis):
    rows = talk(ada)
    view = shown(ada)
    branch = actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    actions.undo_branch(branch=branch, by=BY)
    ada.refresh_from_db()
    assert ada.state == "stopped"
    assert shown(ada) == view
    assert Memory.objects.get(pk=branch.correction_id).taken_back
    with pytest.raises(actions.ActionError, match="undone already"):
        actions.undo_branch(branch=branch, by=BY)
    again = actions.take_branch(mysis=ada, asked=rows[3].pk, text="No, no.", by=BY)
    assert again.messages == branch.messages
    answer(ada, "Aye.")
    with pytest.raises(actions.ActionError, match="has gone on since"):
        actions.undo_branch(branch=again, by=BY)
    # What an earlier branch took back is not given back by undoing a later one.
    last = actions.take_branch(mysis=ada, asked=again.correction_id, text="Hm.", by=BY)
    actions.undo_branch(branch=last, by=BY)
    assert Memory.objects.filter(branch=again).count() == again.messages


def test_a_correction_that_was_undone_is_no_newest_order(ada: Mysis):
    rows = talk(ada)
    branch = actions.take_branch(mysis=ada, asked=rows[3].pk, text="Undone.", by=BY)
    actions.undo_branch(branch=branch, by=BY)
    said = {"role": "assistant", "origin": "agent", "content": "I fly."}
    Memory.objects.bulk_create(Memory(mysis=ada, **said) for _ in range(TAIL_ROWS))
    text = shown(ada, strategy="window")
    assert "Undone." not in text
    assert "w6x" in text


def test_it_is_searched_by_people_and_not_by_the_mysis(ada: Mysis):
    rows = talk(ada)
    actions.take_branch(mysis=ada, asked=rows[0].pk, text="No.", by=BY)
    gone = next(row for row in rows if row.content == "w8x")
    handle = {"handle": f"ctx://self/{gone.pk}"}
    own, person = Scope("mysis:Ada", ada.pk), Scope(BY)
    for mode in ("fts", "exact"):
        asked = {"query": "w8x", "mode": mode}
        assert answer_search_messages(asked, own).value["count"] == 0
        found = answer_search_messages({**asked, "mysis_id": "Ada"}, person).value
        assert {one["taken_back"] for one in found["matches"]} == {True}
    with pytest.raises(RecallError, match="taken back"):
        answer_recall(handle, own)
    handle = {"handle": f"ctx://Ada/{gone.pk}"}
    assert "w8x" in str(answer_recall(handle, person).value["content"])


def record(mysis: Mysis) -> SentContext:
    turn = make_turn(mysis, outcome="done")
    made = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    view = preview_context(Mysis.objects.get(pk=mysis.pk))
    return prepare.record_call(call_id=made.pk, prepared=view)


def test_calls_before_and_after_it_can_be_made_again_as_they_were(ada: Mysis):
    rows = talk(ada)
    sent = [record(ada)]
    answer(ada, "Aye.")
    sent.append(record(ada))
    actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    sent.append(record(ada))
    answer(ada, "Aye, aye.")
    sent.append(record(ada))
    last = Memory.objects.filter(mysis=ada, branch=None).earliest("pk")
    actions.take_branch(mysis=ada, asked=last.pk, text="Again.", by=BY)
    for one in SentContext.objects.order_by("pk"):
        past = replay.load_past_call(one, build_subject(one.mysis))
        assert assemble_again(past).digest == one.digest
    # The next call goes on from one whose messages all stand.
    view = preview_context(Mysis.objects.get(pk=ada.pk))
    assert view.request.previous is None


def test_exports_say_what_was_taken_back(ada: Mysis):
    rows = talk(ada)
    actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    lines = [json.loads(one) for one in write_pieces(ada.pk, "jsonl")]
    gone = [one["id"] for one in lines if one.get("taken_back")]
    assert gone == [row.pk for row in rows[4:]]
    chat = json.loads("".join(write_pieces(ada.pk, "openai")))
    check_messages(chat["messages"])
    assert len(chat["messages"]) == 5
    assert ", taken back\n" in "".join(write_pieces(ada.pk, "markdown"))


def test_an_import_takes_back_what_was_taken_back(ada: Mysis, tmp_path: Path):
    rows = talk(ada)
    actions.take_branch(mysis=ada, asked=rows[3].pk, text="No.", by=BY)
    file = tmp_path / "ada.jsonl"
    file.write_text("".join(write_pieces(ada.pk, "jsonl")))
    bo = make_mysis(name="Bo", state="stopped")
    assert import_messages(bo, open_history(file, name="Bo"), lambda _: None) == 14
    gone = Memory.objects.filter(mysis=bo).exclude(branch=None)
    assert [row.content for row in gone.order_by("pk")] == [r.content for r in rows[4:]]
    assert not [word for word in words(rows[4:]) if word in shown(bo)]
    assert "No." in shown(bo)
    branch = Branch.objects.get(mysis=bo)
    assert (branch.by, branch.messages) == ("import", len(rows) - 4)
    with pytest.raises(actions.ActionError, match="has gone on since"):
        actions.undo_branch(branch=branch, by=BY)


def test_an_import_changes_no_call_that_was_made_before_it(
    ada: Mysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(in_out, "BATCH", 3)
    actions.take_branch(mysis=ada, asked=talk(ada)[3].pk, text="No.", by=BY)
    file = tmp_path / "ada.jsonl"
    file.write_text("".join(write_pieces(ada.pk, "jsonl")))
    bo = make_mysis(name="Bo", state="stopped")
    first = make_memory(bo, content="Go.")
    answer(bo, "Aye.")
    old = record(bo)
    own = actions.take_branch(mysis=bo, asked=first.pk, text="No.", by=BY, start=False)
    Mysis.objects.update(heard=own.correction_id)
    import_messages(bo, open_history(file, name="Bo"), lambda _: None)
    new = record(bo)
    for one in (old, new):
        past = replay.load_past_call(one, build_subject(bo))
        assert assemble_again(past).digest == one.digest
    branch = Branch.objects.get(mysis=bo, by="import")
    gone = Memory.objects.filter(branch=branch).order_by("pk")
    assert (branch.first_id, branch.through_id, branch.messages) == (
        gone[0].pk,
        gone.latest("pk").pk,
        gone.count(),
    )


def test_over_rest_it_is_taken_listed_and_undone(ada: Mysis):
    rows = talk(ada)
    _, secret = create_token(name="helm", role="operator")
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    at = "/api/v1/myses/Ada/branches"
    body = {"from": rows[1].pk, "text": "No.", "start": False}
    # Nothing is taken back that came after what the caller knows of.
    known = {**body, "through": rows[-2].pk}
    late = client.post(at, known, content_type="application/json")
    assert (late.status_code, late.json()["code"]) == (409, "changed")
    body["through"] = rows[-1].pk
    made = client.post(at, body, content_type="application/json")
    assert made.status_code == 201
    told = made.json()
    assert (told["asked"], told["kept"], told["moved"]) == (
        rows[1].pk,
        rows[3].pk,
        True,
    )
    assert client.get(at).json()["items"] == [told]
    log = client.get("/api/v1/myses/Ada/memories?limit=200").json()["items"]
    assert [one["taken_back"] for one in log] == [False] * 4 + [True] * (
        len(rows) - 4
    ) + [False]
    assert client.delete(f"{at}/{told['id']}").status_code == 204
    assert client.delete(f"{at}/{told['id']}").status_code == 409
    assert client.delete(f"{at}/99").status_code == 404
    _, secret = create_token(name="eye", role="viewer")
    viewer = Client(headers={"Authorization": f"Bearer {secret}"})
    answer_ = viewer.post(at, body, content_type="application/json")
    assert answer_.status_code == 403


def test_its_pages_ask_take_and_undo_without_a_script(ada: Mysis, sign_in: Any):
    rows = talk(ada)
    client = sign_in("operator")
    page = f"/myses/Ada/messages/{rows[1].pk}/branch/"
    drawn = client.get(page).content.decode()
    assert f"it goes on after {rows[3].pk}" in drawn
    assert client.post(page, {"text": " "}).status_code == 422
    # An order that came since the page was drawn is not taken back unseen.
    order, _ = give(ada, "Come home.")
    late = client.post(page, {"text": "No.", "orders": ""})
    assert late.status_code == 409
    assert f'name="orders" value="{order}"' in late.content.decode()
    assert "Orders came or ended meanwhile" in late.content.decode()
    assert not Branch.objects.exists()
    answered = client.post(page, {"text": "<b>No.</b>"})
    branch = Branch.objects.get()
    assert answered.url == f"/myses/Ada/#line-{branch.correction_id}"
    log = client.get("/myses/Ada/").content.decode()
    assert log.count("line-taken") == branch.messages
    assert f'href="/branches/{branch.pk}/"' in log
    assert "&lt;b&gt;No.&lt;/b&gt;" in log
    undo = f"/branches/{branch.pk}/undo/"
    assert "stand again" in " ".join(client.post(undo).content.decode().split())
    client.post(undo, {"confirmed": "yes"})
    assert client.get(f"/branches/{branch.pk}/").content.decode().count("undone") >= 1
    assert not Memory.objects.filter(pk__in=[r.pk for r in rows], branch__isnull=False)
    viewer = sign_in("viewer")
    assert viewer.post(page, {"text": "No."}).status_code == 302
    assert Branch.objects.count() == 1
