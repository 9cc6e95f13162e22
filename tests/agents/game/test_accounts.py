"""The pool: one owner per account, secrets sealed, switches that lose nothing."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.game import accounts
from agents.game.accounts import AccountRefusedError, ActiveAccount, Credentials
from agents.models import Account, Mysis
from memory.models import GameSnapshot
from memory.snapshots import reads
from tests.factories import make_account, make_mysis

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)


@pytest.fixture
def ada(db: Any) -> Mysis:
    return make_mysis(name="Ada")


def played_by(mysis: Mysis) -> ActiveAccount | None:
    """The account that a Mysis plays as."""
    row = Account.objects.filter(active_mysis=mysis).first()
    return accounts.make_card(row) if row else None


def _snapshot(username: str) -> GameSnapshot:
    return GameSnapshot.objects.create(
        username=username,
        tool_name="get_ship",
        content="{}",
        captured_at=timezone.now(),
    )


def test_a_free_account_of_the_wanted_name_goes_first(ada: Mysis) -> None:
    make_account(username="First")
    make_account(username="Empire", empire="nebula")
    wanted = make_account(username="Wanted")
    card = accounts.claim_free(ada.pk, username="wanted", empire="nebula")
    assert card == ActiveAccount(wanted.pk, "Wanted")
    other = make_mysis()
    second = accounts.claim_free(other.pk, username="wanted", empire="nebula")
    assert second is not None
    assert second.username == "Empire"
    assert accounts.list_owned_names(ada.pk) == ["Wanted"]


def test_an_account_without_a_password_or_passed_over_is_not_claimed(
    ada: Mysis,
) -> None:
    make_account(username="Keyless", password="")
    bad = make_account(username="Bad")
    assert accounts.claim_free(ada.pk, passed=[bad.pk]) is None


@pytest.mark.django_db(transaction=True)
def test_many_claim_at_once_and_each_gets_its_own() -> None:
    for number in range(6):
        make_account(username=f"Free{number}")
    myses = [make_mysis() for _ in range(8)]
    claimed: list[ActiveAccount | None] = []
    barrier = threading.Barrier(len(myses))

    def claim(mysis_id: int) -> None:
        barrier.wait(30)
        try:
            claimed.append(accounts.claim_free(mysis_id))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=claim, args=(one.pk,)) for one in myses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [card.username for card in claimed if card is not None]
    assert sorted(names) == [f"Free{number}" for number in range(6)]
    assert claimed.count(None) == 2


@pytest.mark.parametrize("name", ["bob", "BOB"])
def test_a_registration_never_overwrites_the_account_of_another(
    ada: Mysis, name: str
) -> None:
    bob = make_mysis()
    his = make_account(username="bob", password="his own", assigned_to=bob)
    found = Credentials(session="s" * 32, password="p" * 32, username=name)
    with pytest.raises(AccountRefusedError, match="Call register with another"):
        accounts.add_registered(ada.pk, username="x", empire="", found=found)
    his.refresh_from_db()
    assert (his.assigned_to_id, his.password, his.username) == (
        bob.pk,
        "his own",
        "bob",
    )
    his.assigned_to = None
    his.save()
    card = accounts.add_registered(ada.pk, username="x", empire="", found=found)
    assert (card.pk, card.username) == (his.pk, name)
    assert played_by(ada) == card


def test_an_account_of_another_is_refused_with_a_remedy(ada: Mysis) -> None:
    make_account(username="Hers", assigned_to=ada)
    make_account(username="His", assigned_to=make_mysis())
    with pytest.raises(AccountRefusedError, match=r"another Mysis.*username Hers"):
        accounts.take_account(ada.pk, "His")
    with pytest.raises(AccountRefusedError, match=r"Nobody is known.*username Hers"):
        accounts.take_account(ada.pk, "Nobody")
    with pytest.raises(AccountRefusedError, match="Call register"):
        accounts.take_account(make_mysis().pk, "His")
    card, fresh = accounts.take_account(ada.pk, "hers")
    assert (card.username, fresh) == ("Hers", False)


def test_a_free_account_is_claimed_by_name_and_can_be_given_back(ada: Mysis) -> None:
    free = make_account(username="Free")
    card, fresh = accounts.take_account(ada.pk, "Free")
    assert fresh
    assert accounts.list_owned_names(ada.pk) == ["Free"]
    accounts.play_as(ada.pk, card, "s" * 32)
    accounts.release_claim(ada.pk, free.pk)
    ada.refresh_from_db()
    assert ada.account is None
    assert accounts.list_owned_names(ada.pk) == []


def test_playing_as_another_keeps_the_rows_of_the_first(ada: Mysis) -> None:
    """A19, G4."""
    first = make_account(username="First", assigned_to=ada)
    second = make_account(username="Second", assigned_to=ada)
    accounts.play_as(ada.pk, ActiveAccount(first.pk, "First"), "a" * 32)
    _snapshot("First")
    accounts.play_as(ada.pk, ActiveAccount(second.pk, "Second"), "b" * 32)
    assert played_by(ada) == ActiveAccount(second.pk, "Second", "b" * 32)
    assert reads.read_account_state("Second").snapshots == ()
    assert len(reads.read_account_state("First").snapshots) == 1


def test_logout_empties_the_list_and_a_login_shows_it_flagged(ada: Mysis) -> None:
    """A19, G5: a logout is a tombstone, nothing is lost."""
    account = make_account(username="First", assigned_to=ada)
    card = accounts.play_as(ada.pk, ActiveAccount(account.pk, "First"), "a" * 32)
    row = _snapshot("First")
    accounts.leave_account(ada.pk, card)
    assert played_by(ada) is None
    assert accounts.load_session(account.pk) == ""
    assert accounts.list_owned_names(ada.pk) == ["First"]
    assert reads.read_account_state("First").snapshots == ()
    accounts.play_as(ada.pk, ActiveAccount(account.pk, "First"), "b" * 32)
    row.refresh_from_db()
    assert row.stale_reason == "captured before logout"


def test_a_new_account_is_stored_sealed_and_begins_empty(ada: Mysis) -> None:
    old = make_mysis(account=make_account(username="Nova", password="old"))
    _snapshot("Nova")
    found = Credentials("5" * 32, "p" * 64, "Nova", "id1")
    card = accounts.add_registered(
        ada.pk, username="nova", empire="solarian", found=found
    )
    row = Account.objects.get(username="Nova")
    ada.refresh_from_db()
    old.refresh_from_db()
    assert card == ActiveAccount(row.pk, "Nova", "5" * 32)
    assert (ada.account, old.account, row.assigned_to) == (row, None, ada)
    assert (row.empire, row.player_id, row.password) == ("solarian", "id1", "p" * 64)
    assert reads.read_account_state("Nova").snapshots == ()
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(a)::text FROM agents_account a")
        stored = cursor.fetchone()[0]
    assert "p" * 16 not in stored
    assert "5" * 16 not in stored


def test_a_session_sealed_under_a_lost_key_means_a_new_login(
    ada: Mysis, settings: Any
) -> None:
    account = make_account(assigned_to=ada)
    accounts.play_as(ada.pk, ActiveAccount(account.pk, account.username), "a" * 32)
    settings.ZOEA_KEYS = ["another key entirely"]
    assert played_by(ada) == ActiveAccount(account.pk, account.username, "")


@given(session=HEX, password=HEX, name=st.text("abcXYZ 0", min_size=3, max_size=24))
def test_credentials_are_read_from_json_and_from_text(
    session: str, password: str, name: str
) -> None:
    player = {"username": name, "id": "7"}
    value = {"session_id": session, "password": password, "player": player}
    expected = Credentials(session, password, name, "7")
    assert accounts.read_credentials([json.dumps(value)]) == expected
    assert (
        accounts.read_credentials(["hello", json.dumps({"result": value})]) == expected
    )
    older = {"session": {"id": session}, "token": password, "username": name}
    found = accounts.read_credentials([json.dumps(older)])
    assert (found.session, found.password) == (session, password)
    text = f"Welcome back, {name}! Session ID: {session}\nPassword: {password}"
    found = accounts.read_credentials([text])
    assert (found.session, found.password) == (session, password)


@given(st.lists(st.text()))
def test_no_answer_breaks_the_reading_of_credentials(blocks: list[str]) -> None:
    accounts.read_credentials(blocks)
