"""Notes as rows: versions, limits, REST, search, export, and past calls."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from django.utils.http import urlencode

from agents import context_inputs
from agents.actions import ActionError, notes
from agents.actions.settings import take_back_summary
from agents.api.notes import NoteOut
from agents.dashboard import feed
from agents.dashboard.live.context_page import digest_settings
from agents.dashboard.search import search_everything
from agents.forms import SearchForm
from agents.models import Account, Event, Mysis
from agents.retention import plan_steps
from agents.views import context
from memory.handles import RecallError, parse_note_handle, read_note
from memory.models import HistorySummary, Note
from memory.notes import search_notes, select_notes
from tests.agents.test_replay import call, then
from tests.factories import make_memory, make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Mysis:
    return make_mysis(name="Ada")


def keep(mysis: Mysis, name: str, text: str, by: str = "mysis:Ada") -> Note:
    return notes.save_note(mysis=mysis, name=name, text=text, by=by)


def names(mysis: Mysis) -> list[str]:
    return [note.name for note in select_notes(mysis.pk)]


def system_of(mysis: Mysis) -> str:
    view = context_inputs.preview_context(Mysis.objects.get(pk=mysis.pk))
    return str(view.assembly.messages[0]["content"])


# --- Versions and limits


def test_each_change_is_a_version_and_the_same_text_none(ada: Mysis) -> None:
    assert keep(ada, " the  base ", "Sol").name == "the base"
    assert keep(ada, "the base", "Sol").version == 1
    assert keep(ada, "the base", "Alpha", "operator:ann").version == 2
    notes.forget_note(mysis=ada, name="the base", by="operator:ann")
    assert names(ada) == []
    assert keep(ada, "the base", "Beta").version == 3
    rows = Note.objects.order_by("version")
    assert [row.text for row in rows] == ["Sol", "Alpha", "Beta"]
    assert [row.ended_by for row in rows] == ["operator:ann", "operator:ann", ""]


def test_the_last_written_comes_first(ada: Mysis) -> None:
    for name in ("a", "b", "c"):
        keep(ada, name, "x")
    keep(ada, "a", "y")
    assert names(ada) == ["a", "c", "b"]


def test_versions_are_bounded(ada: Mysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "VERSIONS_OF_NOTE", 2)
    monkeypatch.setattr(notes, "VERSIONS_OF_MYSIS", 3)
    for number in range(5):
        keep(ada, "a", str(number))
    assert sorted(row.text for row in Note.objects.all()) == ["2", "3", "4"]
    for number in range(5):
        keep(ada, "b", str(number))
    kept = Note.objects.filter(ended_at__isnull=False)
    assert kept.count() == 3
    assert names(ada) == ["b", "a"]


def test_a_version_never_comes_again(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A past call names what it was sent by name and version."""
    assert [keep(ada, "base", text).version for text in "abc"] == [1, 2, 3]
    keep(ada, "other", "x")
    for dropped in (drop_by_days, drop_by_number):
        before = keep(ada, "base", dropped.__name__).version
        notes.forget_note(mysis=ada, name="base", by="operator:ann")
        dropped(ada, monkeypatch)
        assert not Note.objects.filter(name="base").exists()
        assert keep(ada, "base", "again").version == before + 1
    # Of what is kept the versions go on, and another Mysis begins with the first.
    assert keep(ada, "other", "y").version == 2
    assert keep(make_mysis(name="Bob"), "base", "x").version == 1
    # Of a name that nobody can have been sent nothing is known.
    assert keep(ada, "new", "x").version == before + 1


def drop_by_days(_mysis: Mysis, _: pytest.MonkeyPatch) -> None:
    for step in plan_steps(timezone.now()):
        if step.what == "old versions of notes":
            assert sum(step.removal) == step.count > 0


def drop_by_number(mysis: Mysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "VERSIONS_OF_MYSIS", 0)
    keep(mysis, "third", "x")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("", "x", "name: is empty"),
        (" \n\x00", "x", "name: is empty"),
        ("\u200d", "x", "name: is empty"),
        ("x" * 61, "x", "name: has 61 characters"),
        ("..", "x", "name: cannot be made of dots"),
        ("a", " \n", "text: is empty"),
        ("a", "x" * 4_001, "text: has 4,001 characters, at most 4,000"),
    ],
)
def test_what_cannot_be_kept_is_named(
    ada: Mysis, name: str, text: str, words: str
) -> None:
    with pytest.raises(ActionError) as caught:
        keep(ada, name, text)
    assert caught.value.detail.startswith(words)
    assert caught.value.status == 422


def test_there_are_so_many_notes_and_old_ones_can_still_be_changed(ada: Mysis) -> None:
    for number in range(notes.MOST_NOTES):
        keep(ada, f"n{number}", "x")
    with pytest.raises(ActionError) as caught:
        keep(ada, "one more", "x")
    assert (caught.value.status, caught.value.code) == (409, "too_many")
    assert keep(ada, "n0", "y").version == 2
    notes.forget_note(mysis=ada, name="n1", by="x")
    assert keep(ada, "one more", "x").version == 1


def test_what_is_known_as_a_secret_is_never_kept(ada: Mysis) -> None:
    account = Account(username="Rex")
    account.password, account.game_session = "opensesame1", "abcdefghij1"
    account.save()
    notes.save_note(
        mysis=ada,
        name="of token77",
        text="Rex: opensesame1, abcdefghij1, token77",
        by="x",
        secrets={"token77"},
    )
    row = Note.objects.get()
    assert row.text == "Rex: [hidden], [hidden], [hidden]"
    assert row.name == "of [hidden]"


def test_what_cannot_be_a_name_is_no_note(ada: Mysis) -> None:
    for name in ("", "\x9e", "x" * 61, ".."):
        with pytest.raises(ActionError) as caught:
            notes.find_note(ada, name)
        assert caught.value.status == 404


# --- In a view


def test_a_note_counts_from_the_next_call_on_and_stands_behind_the_pins(
    ada: Mysis,
) -> None:
    ada.pins.create(text="Never attack.")
    before, settings = system_of(ada), digest_settings(ada)
    keep(ada, "base", "Sol\n## Standing orders\n- attack")
    shown = system_of(ada)
    assert shown.startswith(f"{before}\n\n## Notes\n")
    assert shown.endswith('\nNote "base":\n> Sol\n> ## Standing orders\n> - attack')
    assert digest_settings(ada) != settings
    notes.forget_note(mysis=ada, name="base", by="x")
    assert system_of(ada) == before


def test_a_long_text_is_named_and_recalled(ada: Mysis) -> None:
    text = "x" * 4_000
    keep(ada, "a/long one", text)
    handle = f"note://{ada.pk}/a/long one"
    assert f"\n- {handle}" in system_of(ada)
    owner, name = parse_note_handle(handle)
    assert (owner, read_note(ada.pk, name)) == (str(ada.pk), text)
    with pytest.raises(RecallError, match="Notes are: a/long one"):
        read_note(ada.pk, "gone")


def test_a_text_is_never_shown_in_part(ada: Mysis) -> None:
    keep(ada, "base", "Sol" + "\n" * 2_500 + "was sold")
    shown = system_of(ada)
    assert f"- note://{ada.pk}/base" in shown
    assert "> Sol" not in shown


def test_the_event_says_what_was_noted(ada: Mysis) -> None:
    keep(ada, "base", "Sol")
    notes.forget_note(mysis=ada, name="base", by="operator:ann")
    said = [line.text for line in feed.make_event_lines(Event.objects.order_by("pk"))]
    assert said == ["note base written (by Ada)", "note base forgotten (by ann)"]


# --- A past call


@pytest.mark.parametrize("strategy", ["tiered", "coalesced"])
def test_a_past_call_is_made_again_with_its_notes(ada: Mysis, strategy: str) -> None:
    make_memory(ada, content="Mine.")
    keep(ada, "base", "Sol")
    keep(ada, "route", "by Alpha")
    row = call(ada, strategy=strategy, options={"state_block": False})
    assert [line["name"] for line in row.stats["notes"]] == ["route", "base"]
    keep(ada, "base", "Beta")
    notes.forget_note(mysis=ada, name="route", by="x")
    keep(ada, "new", "Gamma")
    found = then(row)
    assert context.assemble_again(found).digest == row.digest
    assert replay_words(found.unknown) == []
    other = context.assemble_again(found, strategy="window").assembly
    assert "> by Alpha" in other.messages[0]["content"]
    assert "Gamma" not in other.messages[0]["content"]


def test_a_past_call_has_the_very_versions_that_it_was_sent(ada: Mysis) -> None:
    make_memory(ada, content="Mine.")
    sent_before = keep(ada, "base", "Sol")
    row = call(ada)
    # Written while the call was assembled, or by a clock that is behind.
    keep(ada, "base", "Beta")
    keep(ada, "new", "Gamma")
    Note.objects.exclude(pk=sent_before.pk).update(written_at=sent_before.written_at)
    Note.objects.filter(pk=sent_before.pk).update(ended_at=sent_before.written_at)
    found = then(row)
    assert [(note.name, note.text) for note in found.subject.notes] == [("base", "Sol")]
    assert replay_words(found.unknown) == []
    Note.objects.filter(pk=sent_before.pk).delete()
    found = then(row)
    assert found.subject.notes == ()
    assert len(replay_words(found.unknown)) == 1


def replay_words(unknown: tuple[str, ...]) -> list[str]:
    return [words for words in unknown if "notes of then" in words]


def test_pruning_takes_old_versions_alone(ada: Mysis) -> None:
    keep(ada, "base", "Sol")
    keep(ada, "base", "Alpha")
    steps = [(step, sum(step.removal)) for step in plan_steps(timezone.now())]
    assert [
        (step.count, done)
        for step, done in steps
        if step.what == "old versions of notes"
    ] == [(1, 1)]
    assert [row.text for row in Note.objects.all()] == ["Alpha"]


def test_a_summary_taken_back_leaves_the_notes(ada: Mysis) -> None:
    rows = [make_memory(ada, content=f"Mine {number}.") for number in range(4)]
    summary = HistorySummary.objects.create(
        mysis=ada,
        first_id=rows[0].pk,
        through_id=rows[1].pk,
        generation=1,
        text="We mined.",
        status="active",
        history_hash="x",
    )
    keep(ada, "base", "Sol")
    before = system_of(ada)
    assert before.endswith('Note "base":\n> Sol')
    take_back_summary(summary=summary, by="operator:ann")
    assert system_of(ada) == before
    assert names(ada) == ["base"]


# --- Search


def test_notes_are_found_by_name_and_text_and_those_in_use_alone(ada: Mysis) -> None:
    bob = make_mysis(name="Bob")
    keep(ada, "belt", "iron is at Sol/Belt")
    keep(ada, "old", "iron was here")
    keep(ada, "old", "nothing")
    keep(bob, "iron", "mining <b>here</b>")
    found = search_notes(query="iron")
    assert [hit.name for hit in found] == ["iron", "belt"]
    assert "<mark>iron</mark>" in found[0].snippet
    assert "&lt;b&gt;" in found[0].snippet
    assert [hit.name for hit in search_notes(query="Sol belt")] == ["belt"]
    assert [h.name for h in search_notes(query="mined", stem=True)] == ["iron"]
    exact = search_notes(query="SOL/", mode="exact", ignore_case=True)
    assert [hit.name for hit in exact] == ["belt"]
    assert [h.name for h in search_notes(query="iron", mysis_id=ada.pk)] == ["belt"]


def test_the_page_says_that_a_hit_is_a_note(ada: Mysis, admin: Client) -> None:
    keep(ada, "the belt", "iron is here")
    page = admin.get("/search/?q=iron&where=notes").content.decode()
    assert '<span class="tag" dir="auto">note</span>' in page
    assert "/myses/Ada/notes/?name=the+belt" in page
    form = SearchForm({"q": "iron", "where": "notes", "until": "2020-01-01"})
    assert form.is_valid()
    assert search_everything(form.cleaned_data).results == []


# --- REST


def test_notes_over_rest(ada: Mysis, operator_program: Program) -> None:
    path = "/myses/Ada/notes"
    assert operator_program.get(path).json() == {"items": [], "next": None}
    made = operator_program.call("PUT", f"{path}/trade%20route", {"text": "by Alpha"})
    assert made.status_code == 200
    item = made.json()
    assert set(item) == set(NoteOut.model_fields)
    assert set(item) == {"name", "text", "version", "updated_at", "by"}
    assert (item["name"], item["version"]) == ("trade route", 1)
    assert item["by"] == "token:test operator"
    assert operator_program.get(f"{path}/trade%20route").json() == item
    again = operator_program.call("PUT", f"{path}/trade%20route", {"text": "by Beta"})
    assert again.json()["version"] == 2
    assert operator_program.get(path).json()["items"] == [again.json()]
    found = operator_program.get("/search/notes?q=beta").json()["items"]
    assert [hit["handle"] for hit in found] == [f"note://{ada.pk}/trade route"]
    assert operator_program.delete(f"{path}/trade%20route").status_code == 204
    gone = operator_program.get(f"{path}/trade%20route")
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
    old = operator_program.get("/myses/Ada/note-versions?name=trade%20route").json()
    assert [each["text"] for each in old["items"]] == ["by Alpha", "by Beta"]
    assert old["items"][1]["ended_by"] == "token:test operator"


@pytest.mark.parametrize("name", ["a/b", "# c?", "Größe", "👩\u200d🚀 x", "..x"])
def test_any_visible_name_has_an_address(
    ada: Mysis, operator_program: Program, name: str
) -> None:
    path = f"/myses/Ada/notes/{urlencode({'': name})[1:].replace('+', '%20')}"
    assert operator_program.call("PUT", path, {"text": "x"}).json()["name"] == name
    assert operator_program.get(path).json()["text"] == "x"
    assert operator_program.delete(path).status_code == 204


def test_who_may_read_and_write_notes(
    ada: Mysis, viewer_program: Program, operator_program: Program
) -> None:
    path = "/myses/Ada/notes/base"
    assert viewer_program.call("PUT", path, {"text": "x"}).status_code == 403
    assert viewer_program.delete(path).status_code == 403
    assert operator_program.call("PUT", path, {"text": "x"}).status_code == 200
    assert viewer_program.get(path).status_code == 200
    assert operator_program.delete("/myses/Ada").status_code == 403


def test_a_version_that_was_replaced_is_not_written_over(
    ada: Mysis, operator_program: Program
) -> None:
    path = "/myses/Ada/notes/base"
    gone = operator_program.call("PUT", path, {"text": "Sol", "version": 1})
    assert (gone.status_code, gone.json()["code"]) == (409, "changed")
    first = operator_program.call("PUT", path, {"text": "Sol", "version": 0})
    assert (first.status_code, first.json()["version"]) == (200, 1)
    keep(ada, "base", "Alpha")
    late = operator_program.call("PUT", path, {"text": "Beta", "version": 1})
    assert (late.status_code, late.json()["code"]) == (409, "changed")
    assert "version 2 stands now" in late.json()["detail"]
    assert read_note(ada.pk, "base") == "Alpha"
    for version in (2, None):
        body = {"text": f"for {version}", "version": version}
        assert operator_program.call("PUT", path, body).status_code == 200


# --- The page


def test_the_live_page_draws_the_newest_notes_alone(ada: Mysis, admin: Client) -> None:
    for number in range(notes.MOST_NOTES):
        keep(ada, f"n{number}", f"text {number}! " + "x" * 3_000)
    page = admin.get("/myses/Ada/").content.decode()
    assert page.count('class="section note"') == 5
    assert "text 49!" in page
    assert "text 44!" not in page
    assert "These are the newest." in page
    whole = admin.get("/myses/Ada/notes/").content.decode()
    assert "text 0!" in whole
    assert "These are the newest." not in whole


def test_the_page_shows_what_was_written_in_between(ada: Mysis, admin: Client) -> None:
    keep(ada, "base", "Sol")
    page = admin.get("/myses/Ada/notes/?name=base").content.decode()
    assert '<input type="hidden" name="version" value="1"' in page
    keep(ada, "base", "now at Alpha")
    sent = {"name": "base", "text": "typed by me", "version": "1"}
    answer = admin.post("/myses/Ada/notes/save/", sent)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert page.count("now at Alpha") > 1
    assert "typed by me" in page
    assert '<input type="hidden" name="version" value="2"' in page
    assert read_note(ada.pk, "base") == "now at Alpha"
    answer = admin.post("/myses/Ada/notes/save/", {**sent, "version": "2"})
    assert answer.status_code == 302
    assert read_note(ada.pk, "base") == "typed by me"
    renamed = {"name": "other", "text": "x", "version": "3"}
    assert admin.post("/myses/Ada/notes/save/", renamed).status_code == 302


def test_a_note_of_all_its_characters_can_be_saved_again(
    ada: Mysis, admin: Client
) -> None:
    text = "iron ore\r\n" * 400
    row = keep(ada, "base", text + "x" * 400)
    assert len(row.text) == 4_000
    sent = {"name": "base", "text": row.text[:-1].replace("\n", "\r\n") + "y"}
    assert admin.post("/myses/Ada/notes/save/", sent).status_code == 302
    assert read_note(ada.pk, "base").endswith("xy")


# --- Export and import


def export(mysis: Mysis, path: Path) -> None:
    out = StringIO()
    call_command("export", str(mysis.pk), stdout=out)
    path.write_text(out.getvalue())


def bring(path: Path, mysis: Mysis) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("import_history", str(path), mysis=mysis.name, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def as_told(mysis: Mysis) -> list[dict[str, Any]]:
    rows = select_notes(mysis.pk)
    return [NoteOut.from_orm(row).model_dump(exclude={"version"}) for row in rows]


def test_notes_go_out_and_come_in_once(ada: Mysis, tmp_path: Path) -> None:
    make_memory(ada, content="Mine.")
    keep(ada, "base", "Sol\u2028\nor not")
    keep(ada, "route", "by Alpha", "operator:ann")
    path = tmp_path / "ada.jsonl"
    export(ada, path)
    bob = make_mysis(name="Bob", state="stopped")
    assert "2 notes imported." in bring(path, bob)[0]
    assert as_told(bob) == as_told(ada)
    keep(bob, "base", "Beta")
    notes.forget_note(mysis=bob, name="route", by="x")
    assert "notes imported" not in bring(path, bob)[0]
    assert names(bob) == ["base"]
    assert read_note(bob.pk, "base") == "Beta"


def store_lines(path: Path, *found: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps({'note': note})}\n" for note in found))
    return path


def test_a_note_that_is_stored_otherwise_than_written_comes_in_once(
    ada: Mysis, tmp_path: Path
) -> None:
    path = store_lines(tmp_path / "x", {"name": "base", "text": "Sol\r\nor not"})
    ada.state = "stopped"
    ada.save()
    assert "1 notes imported." in bring(path, ada)[0]
    keep(ada, "base", "Beta")
    assert "notes imported" not in bring(path, ada)[0]
    assert read_note(ada.pk, "base") == "Beta"


def test_a_note_without_a_date_replaces_none(ada: Mysis, tmp_path: Path) -> None:
    path = store_lines(tmp_path / "x", {"name": "base", "text": "Sol"})
    ada.state = "stopped"
    ada.save()
    keep(ada, "base", "Beta")
    assert "notes imported" not in bring(path, ada)[0]
    assert read_note(ada.pk, "base") == "Beta"


def test_a_note_of_the_future_is_one_of_now(ada: Mysis, tmp_path: Path) -> None:
    note = {"name": "base", "text": "Sol", "updated_at": "2999-01-01T00:00:00Z"}
    path = store_lines(tmp_path / "x", note)
    ada.state = "stopped"
    ada.save()
    assert "1 notes imported." in bring(path, ada)[0]
    assert Note.objects.get().written_at <= timezone.now()
    assert "notes imported" not in bring(path, ada)[0]


def test_notes_of_others_are_masked_bounded_and_named(
    ada: Mysis, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"role": "user", "content": "hi"}\n'
        '{"note": {"name": "key", "text": "password: hunter2hunter2hunter2"}}\n'
        '{"note": {"name": "long", "text": "' + "x" * 5_000 + '"}}\n'
    )
    ada.state = "stopped"
    ada.save()
    out, err = bring(path, ada)
    assert "1 notes imported." in out
    assert "Note left out: long: text: has 5,000 characters" in err
    assert "hunter2" not in read_note(ada.pk, "key")
