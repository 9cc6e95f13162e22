"""What an import brings beside messages, and what it must not change."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from agents import history_import
from agents.actions.messages import read_delivery_statuses
from agents.broadcast_search import search_broadcasts
from agents.models import Account, Broadcast, Event, Mysis
from memory.models import AuditEntry, GameSnapshot, Memory
from memory.search.results import search_messages
from memory.snapshots import writes
from memory.transfer import in_out
from memory.transfer.formats import open_history
from memory.transfer.line import TransferError
from tests.factories import make_account, make_call, make_memory, make_mysis
from tests.memory.transfer.nova_base import PASSWORD, make_base

pytestmark = pytest.mark.django_db

ORDERS = [("user", "direct", f"order {n}") for n in range(5)]
CALL = make_call("mine")


def run(path: Path, mysis: Mysis, **options: Any) -> str:
    out = StringIO()
    call_command("import_history", str(path), mysis=mysis.name, stdout=out, **options)
    return out.getvalue()


def list_entries() -> list[Any]:
    """What the audit log says, of what, and the values."""
    rows = AuditEntry.objects.order_by("pk")
    return list(rows.values_list("action", "object", "after"))


def moved(old: Mysis, new: Mysis, path: Path) -> None:
    call_command("export", old.name, output=str(path))
    run(path, new)


def test_old_messages_are_heard_and_told_of_by_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_out, "BATCH", 3)
    ada = make_mysis(name="Ada")
    base = make_base(tmp_path / "zoea.db", {"Ada": ORDERS})
    run(base, ada)
    ada.refresh_from_db()
    rows = list(ada.memories.order_by("pk"))
    assert ada.heard == rows[-1].pk
    assert {
        each.state
        for each in read_delivery_statuses(ada, [r.pk for r in rows]).values()
    } == {"done"}
    events = Event.objects.filter(kind="memory.added", mysis=ada).order_by("pk")
    assert [event.data for event in events] == [
        {"memory_id": rows[n].pk, "role": "user", "origin": "human", "imported": count}
        for n, count in ((2, 3), (4, 2))
    ]
    run(base, ada)
    assert events.count() == 2


def test_old_orders_never_come_above_newer_ones(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    given = make_memory(ada, content="the order of today")
    Mysis.objects.update(heard=given.pk)
    base = make_base(tmp_path / "zoea.db", {"Ada": ORDERS})
    with pytest.raises(CommandError, match="into a new Mysis") as error:
        run(base, ada)
    assert error.value.returncode == 2
    untimed = tmp_path / "chat.jsonl"
    untimed.write_text('{"role": "user", "content": "whenever"}')
    with pytest.raises(CommandError, match="into a new Mysis"):
        run(untimed, ada)
    assert list(ada.memories.all()) == [given]
    said = tmp_path / "said.jsonl"
    said.write_text('{"role": "assistant", "content": "Aye."}')
    assert "1 messages imported" in run(said, ada)


def test_what_another_mysis_said_is_no_order_that_comes_too_late(
    tmp_path: Path,
) -> None:
    ada = make_mysis(name="Ada")
    given = make_memory(ada, content="the order of today")
    Mysis.objects.update(heard=given.pk)
    said = tmp_path / "said.jsonl"
    told = {"role": "user", "sender": "mysis:Bob", "content": "[From Mysis Bob] Hi."}
    said.write_text(json.dumps(told))
    assert "1 messages imported" in run(said, ada)
    # Nor does it make a newer order than its own time too old.
    untimed = tmp_path / "chat.jsonl"
    asked = {"role": "user", "content": "Sell.", "created_at": "2050-01-01T00:00:00Z"}
    untimed.write_text(json.dumps(asked))
    later = make_memory(ada, sender="mysis:Bob", content="[From Mysis Bob] Bye.")
    Memory.objects.filter(pk=later.pk).update(created_at="2060-01-01T00:00:00Z")
    Mysis.objects.update(heard=later.pk)
    assert "1 messages imported" in run(untimed, ada)


def test_what_waits_to_be_read_is_not_counted_as_heard(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    make_memory(ada, content="waits")
    said = tmp_path / "said.jsonl"
    said.write_text('{"role": "assistant", "content": "Aye."}')
    with pytest.raises(CommandError, match="that no call had yet: start it"):
        run(said, ada)
    assert ada.memories.count() == 1


def test_a_mysis_that_starts_meanwhile_gets_no_more(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    base = make_base(tmp_path / "zoea.db", {"Ada": ORDERS})
    source = open_history(base, name="Ada")
    Mysis.objects.update(state="running")
    with pytest.raises(TransferError, match="Ada is running: stop it first"):
        history_import.import_messages(ada, source, lambda _: None)
    assert not Memory.objects.exists()


def test_a_broadcast_stays_one_however_many_had_it(tmp_path: Path) -> None:
    told = ("user", "broadcast", "All to Sol")
    base = make_base(tmp_path / "zoea.db", {"Ada": [told, told], "Bob": [told]})
    for name in ("Ada", "Bob"):
        run(base, make_mysis(name=name))
    # Ada heard it twice, so there were two.
    assert [hit.sender for hit in search_broadcasts(query="sol")] == ["mysis:Ada"] * 2
    assert len(search_messages(query="sol")) == 2
    assert Memory.objects.filter(broadcast=None).count() == 0
    first = Broadcast.objects.order_by("pk")[0]
    assert first.created_at == first.deliveries.order_by("pk")[0].created_at
    assert first.from_mysis


def test_the_way_out_and_in_keeps_broadcasts_and_pending_calls(tmp_path: Path) -> None:
    ada, eve = make_mysis(name="Ada"), make_mysis(name="Eve")
    sent = Broadcast.objects.create(text="All to Sol", sender="operator:ann")
    make_memory(
        ada, origin="broadcast", broadcast=sent, content=sent.text, sender=sent.sender
    )
    make_memory(ada, role="assistant", content="", tool_calls=[CALL])
    make_memory(ada, role="tool", tool_call_id="c", tool_name="mine", pending=True)
    moved(ada, eve, tmp_path / "ada.jsonl")
    rows = list(eve.memories.order_by("pk"))
    assert [row.pending for row in rows] == [False, False, True]
    assert rows[0].broadcast == sent
    assert len(search_messages(query="sol")) == 1
    # In another fleet it is made anew, with its time.
    Memory.objects.all().delete()
    Broadcast.objects.all().delete()
    run(tmp_path / "ada.jsonl", eve)
    (made,) = Broadcast.objects.all()
    assert (made.text, made.sender, made.from_mysis) == (sent.text, sent.sender, False)
    assert made.created_at == sent.created_at
    assert made.deliveries.get().mysis == eve


def test_accounts_and_states_come_along(tmp_path: Path, admin_client: Client) -> None:
    ada = make_mysis(name="Ada")
    base = make_base(tmp_path / "zoea.db", {"Ada": ORDERS})
    assert "2 game accounts and 2 game states imported." in run(base, ada)
    mine, free = Account.objects.order_by("username")
    assert (mine.username, mine.password, mine.assigned_to) == (
        "AdaPilot",
        PASSWORD,
        ada,
    )
    assert (free.password, free.assigned_to) == ("swordfish", None)
    assert PASSWORD not in mine.sealed_password
    ada.refresh_from_db()
    assert ada.account == mine
    ship = GameSnapshot.objects.get(username="AdaPilot")
    assert '"fuel": 2' in ship.content
    assert "4711" not in ship.content
    assert (ship.game_tick, ship.captured_at.second) == (9, 9)
    (row,) = admin_client.get("/api/v1/myses/Ada/state").json()["items"]
    assert (row["tool"], row["confidence"], row["reason"]) == (
        "get_ship", "invalidated", "imported",
    )  # fmt: skip
    told = list_entries()
    assert [(action, thing) for action, thing, _ in told] == [
        ("history.import", "mysis:Ada"), ("account.create", "account:AdaPilot"),
        ("account.create", f"account:{free}"), ("history.import", "mysis:Ada"),
    ]  # fmt: skip
    assert told[0][2] == {"file": "zoea.db", "messages": 5, "notes": 0}
    assert (told[1][2]["assigned_to"], told[1][2]["password"]) == ("Ada", "changed")
    assert told[3][2] == {"file": "zoea.db", "game_states": 2}
    assert PASSWORD not in json.dumps(told)
    assert "0 game accounts and 0 game states imported." in run(base, ada)
    assert len(list_entries()) == len(told) + 1


def test_accounts_and_states_of_ours_are_left_alone(tmp_path: Path) -> None:
    bob = make_mysis(name="Bob")
    make_account(username="adapilot", password="ours", assigned_to=bob)
    ours = GameSnapshot.objects.create(
        username="AdaPilot",
        tool_name="get_ship",
        args_key=writes.make_storage_key({}),
        content="{}",
        captured_at=timezone.now(),
    )
    ada = make_mysis(name="Ada")
    run(make_base(tmp_path / "zoea.db", {"Ada": ORDERS}), ada)
    kept = Account.objects.get(username__iexact="AdaPilot")
    assert (kept.password, kept.assigned_to) == ("ours", bob)
    assert Mysis.objects.get(pk=ada.pk).account is None
    assert GameSnapshot.objects.get(username="AdaPilot") == ours


@pytest.mark.parametrize(
    "say",
    [
        lambda secret: f"my password is {secret}",
        lambda secret: f"My password: {secret}.",
        lambda secret: f'{{"session_id": "{secret}"}}',
        lambda secret: f"it is {secret}",
    ],
)
def test_no_password_comes_in_by_a_file_that_looks_like_ours(
    tmp_path: Path, say: Callable[[str], str]
) -> None:
    """A11: whatever the form of a file, and passwords of our accounts anywhere."""
    secret = 'h4nter"2' if say("x") == "it is x" else "hunter2"
    make_account(password=secret)
    ada, eve = make_mysis(name="Ada"), make_mysis(name="Eve")
    make_memory(ada, role="assistant", content=say(secret), reasoning=say(secret))
    moved(ada, eve, tmp_path / "ada.jsonl")
    row = eve.memories.get()
    assert secret not in row.content + row.reasoning
    assert "[hidden]" in row.content
    # As it is here, it is known to be there.
    assert "0 messages imported" in run(tmp_path / "ada.jsonl", ada)
