"""Standing orders: their states, and their hashes in the views that are sent."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents import actions
from agents.actions import ActionError
from agents.context_inputs import preview_context
from agents.dashboard.troubles import find_troubles
from agents.models import Event, Mysis, Pin
from agents.runtime.model_calls import _report_lost_pins
from memory.assembly.hashes import check_pins, hash_text
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest, Message
from tests.factories import make_memory, make_mysis
from tests.programs import Program


@given(
    st.sampled_from(registry.list_names()),
    st.lists(st.text(min_size=1).filter(str.strip), max_size=4, unique=True),
    st.sampled_from(["openai", "anthropic"]),
)
def test_a_view_is_checked_byte_for_byte(
    strategy: str, pins: list[str], dialect: Any
) -> None:
    message = Message(1, "user", "human", "Go.")
    view = assemble(
        AssemblyRequest(
            (message,), "You.", tuple(pins), strategy=strategy, dialect=dialect
        )
    )
    hashes = [hash_text(text) for text in pins]
    shown = view.system or str(view.messages[0]["content"])
    for text, found in zip(pins, check_pins(view, pins, hashes), strict=True):
        assert found.hash == hash_text(text)
        assert found.sent == (f"\n- {text}\n" in f"{shown}\n")
        # NUL and lone surrogates cannot be sent: then it says so.
        assert found.sent or "\x00" in text or not text.isprintable()
    others = check_pins(view, pins, [hash_text(f"{text}.") for text in pins])
    assert not any(found.sent for found in others)


@pytest.fixture
def ada(db: None) -> Mysis:
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="Mine.")
    return mysis


def shown(mysis: Mysis) -> str:
    return str(preview_context(mysis).assembly.messages[0]["content"])


def test_a_pin_stands_while_it_is_active_or_acknowledged(ada: Mysis) -> None:
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    assert (pin.state, pin.author, pin.digest) == (
        *("active", "ann"),
        hash_text("Never attack."),
    )
    for state, stands in (
        *(("acknowledged", True), ("done", False), ("active", True)),
        ("superseded", False),
    ):
        actions.set_pin_state(pin=pin, state=state, by="bob")
        assert ("Never attack." in shown(ada)) is stands
        pin.refresh_from_db()
        assert (pin.state, pin.changed_by) == (state, "bob")
    newer = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    with pytest.raises(ActionError, match="stands already"):
        actions.set_pin_state(pin=pin, state="active", by="bob")
    with pytest.raises(ActionError, match="one of active"):
        actions.set_pin_state(pin=newer, state="gone", by="bob")


def test_pins_that_are_given_again_keep_their_state(ada: Mysis) -> None:
    kept = actions.add_pin(mysis=ada, text="One.", by="ann")
    actions.set_pin_state(pin=kept, state="acknowledged", by="ann")
    actions.add_pin(mysis=ada, text="Two.", by="ann")
    actions.update_mysis(mysis=ada, by="bob", pins=["One.", "Three.", "Three."])
    found = list(ada.pins.order_by("pk").values_list("pk", "text", "state"))
    assert found == [
        (kept.pk, "One.", "acknowledged"),
        (found[1][0], "Two.", "superseded"),
        (found[2][0], "Three.", "active"),
    ]
    assert ada.pins.get(text="Two.").changed_by == "bob"


def test_only_a_pin_that_stands_is_superseded(ada: Mysis) -> None:
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    actions.set_pin_state(pin=Pin.objects.get(), state="done", by="ann")
    with pytest.raises(ActionError, match="is done and stands no longer"):
        actions.add_pin(mysis=ada, text="New.", by="ann", supersedes=pin)
    assert list(Pin.objects.values_list("text", "state")) == [("Never attack.", "done")]


def test_a_trouble_of_a_pin_ends_when_the_pins_change(ada: Mysis) -> None:
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    for change in (
        lambda: actions.set_pin_state(pin=pin, state="done", by="ann"),
        lambda: actions.add_pin(mysis=ada, text="Mine.", by="ann"),
        lambda: actions.update_mysis(mysis=ada, by="ann", pins=["Trade."]),
    ):
        Mysis.objects.update(state="stopped", lost_pins="A pin is lost.")
        assert find_troubles(timezone.now())
        change()
        assert find_troubles(timezone.now()) == []


def test_a_pin_that_is_not_sent_as_it_was_pinned_is_a_trouble(ada: Mysis) -> None:
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    prepared = preview_context(ada)
    assert [each.sent for each in prepared.pins] == [True]
    _report_lost_pins(ada, prepared)
    assert not Event.objects.filter(kind="error").exists()
    # Somebody changes the row, past every action.
    Pin.objects.update(text="Always attack.")
    prepared = preview_context(ada)
    assert [(each.hash, each.sent) for each in prepared.pins] == [(pin.digest, False)]
    assert pin.digest[:12] in " ".join(prepared.assembly.warnings)
    for _ in range(2):
        _report_lost_pins(ada, prepared)
    (event,) = Event.objects.filter(kind="error")
    assert pin.digest[:12] in event.data["detail"]
    (trouble,) = find_troubles(timezone.now())
    assert (trouble.mysis, trouble.fix.label) == (ada, "What was sent")
    Pin.objects.update(text="Never attack.")
    _report_lost_pins(ada, preview_context(ada))
    assert find_troubles(timezone.now()) == []


def edit_pins(client: Client, mysis: Mysis, *rows: tuple[Any, str, str, str]) -> str:
    """Save the page of a Mysis in the admin with pins: number, text, state, delete."""
    form: dict[str, Any] = {
        "name": mysis.name,
        "model": "pilot",
        "model_settings": "{}",
        "max_iterations": 5,
        "prompt": mysis.prompt_id,
        "pins-TOTAL_FORMS": len(rows),
        "pins-INITIAL_FORMS": sum(bool(row[0]) for row in rows),
    }
    for place, row in enumerate(rows):
        for name, value in zip(("id", "text", "state", "DELETE"), row, strict=True):
            form[f"pins-{place}-{name}"] = value
    url = reverse("admin:agents_mysis_change", args=[mysis.pk])
    return client.post(url, form, follow=True).content.decode()


@pytest.mark.django_db
def test_the_admin_edits_pins_through_the_actions(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    ada = actions.create_mysis(name="Ada", by="x")
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    own = reverse("admin:agents_pin_change", args=[pin.pk])
    assert client.post(own, {"text": "Attack."}).status_code == 403
    assert 'name="text"' not in client.get(own).content.decode()
    Mysis.objects.update(lost_pins="A pin is lost.")
    before = Event.objects.filter(kind="mysis.state").count()
    edit_pins(client, ada, (pin.pk, "Never attack traders.", "active", ""))
    pin.refresh_from_db()
    assert (pin.text, pin.digest) == (
        *("Never attack traders.",),
        hash_text("Never attack traders."),
    )
    assert [each.sent for each in preview_context(ada).pins] == [True]
    assert Event.objects.filter(kind="mysis.state").count() == before + 2
    ada.refresh_from_db()
    assert ada.lost_pins == ""
    double = edit_pins(
        *(client, ada, (pin.pk, pin.text, "active", "")),
        ("", "Never attack traders.", "active", ""),
    )
    assert "This order stands already." in double
    empty = edit_pins(client, ada, (pin.pk, "x" * 100_001, "active", ""))
    assert "A pin has 100,001 characters" in empty
    edit_pins(client, ada, (pin.pk, pin.text, "active", "on"))
    assert not Pin.objects.exists()


def test_rest_lists_and_changes_pins(ada: Mysis, admin_program: Program) -> None:
    made = admin_program.post("/myses/Ada/pins", {"text": "Never attack."})
    assert made.status_code == 201
    first = made.json()
    assert (first["state"], first["hash"]) == ("active", hash_text("Never attack."))
    newer = admin_program.post(
        "/myses/Ada/pins", {"text": "Attack pirates.", "supersedes": first["id"]}
    ).json()
    items = admin_program.get("/myses/Ada/pins").json()["items"]
    assert [item["state"] for item in items] == ["superseded", "active"]
    assert admin_program.get("/myses/Ada").json()["pins"] == ["Attack pirates."]
    view = admin_program.get("/myses/Ada/context").json()
    assert view["pins"] == [{"hash": newer["hash"], "sent": True}]
    address = f"/myses/Ada/pins/{newer['id']}"
    assert admin_program.patch(address, {"state": "done"}).json()["state"] == "done"
    assert admin_program.get("/myses/Ada").json()["pins"] == []
    for answer, status in (
        (admin_program.patch(address, {"state": "lost"}), 422),
        (admin_program.patch("/myses/Ada/pins/999", {"state": "done"}), 404),
        (admin_program.patch("/myses/Ada/pins/x", {"state": "done"}), 404),
        (admin_program.post("/myses/Ada/pins", {"text": " "}), 422),
        (admin_program.post("/myses/Ada/pins", {"text": "a", "supersedes": 999}), 422),
        (
            admin_program.post(
                "/myses/Ada/pins", {"text": "a", "supersedes": newer["id"]}
            ),
            409,
        ),
        (admin_program.get("/myses/Eve/pins"), 404),
    ):
        assert answer.status_code == status, answer.content


def test_the_context_page_shows_them(ada: Mysis, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="ann")
    page = client.get(reverse("mysis-context", args=["Ada"])).content.decode()
    for part in ("1 of 1", "active", pin.digest[:12], "Never attack."):
        assert part in page
    Pin.objects.update(text="Always attack.")
    page = client.get(reverse("mysis-context", args=["Ada"])).content.decode()
    assert "0 of 1" in page
    assert "is not in this view word for word" in page
