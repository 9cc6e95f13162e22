"""How a target is told of an alert, what it answers, and what can be none."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pytest_django import Settings

from agents.actions import ActionError
from agents.actions.alerts import save_alert_target
from agents.alerts.send import (
    Message,
    build_request,
    cut_text,
    mask_secrets,
    send_message,
    sign_body,
)
from agents.alerts.trial import try_target
from agents.models import AlertTarget, Event
from tests.agents.alerts.receiver import SECRET, Receiver, make_target

# --- How it is written, and what is answered


ITEM = {
    "id": 7,
    "kind": "alert.raised",
    "at": "2026-02-05T00:00:00.000Z",
    "mysis": 1,
    "data": {"rule": "no_income", "mysis": "Zoë", "text": "a <b> & c", "link": "/m/"},
}


def write(kind: str, url: str, secret: str = "") -> tuple[str, Any, dict[str, str]]:
    message = Message(kind, url, secret, json.dumps(ITEM), "key")
    address, body, headers = build_request(message)
    return address, json.loads(body), headers


def test_ntfy_and_slack_are_told_in_their_own_forms(settings: Settings):
    settings.ZOEA_ORIGINS = ["https://*.example.org", "https://zoea.example.org"]
    url, body, headers = write("ntfy", "https://ntfy.sh/base/my-fleet", "token")
    assert url == "https://ntfy.sh/base/"
    assert body["topic"] == "my-fleet"
    assert body["title"] == "Zoë: no income"
    assert body["message"] == "a <b> & c"
    assert body["click"] == "https://zoea.example.org/m/"
    assert headers["Authorization"] == "Bearer token"
    url, body, headers = write("slack", "https://hooks.slack.com/services/x")
    assert body["text"] == (
        ":warning: *Zoë: no income* a &lt;b&gt; &amp; c "
        "<https://zoea.example.org/m/|Open>"
    )
    assert headers["Idempotency-Key"] == "key"


def test_what_is_too_long_for_them_is_cut_with_an_ellipsis():
    text = "ü&" * 5_000
    item = {**ITEM, "data": {**ITEM["data"], "text": text}}  # type: ignore[dict-item]
    for kind, url in (("ntfy", "https://n.example/t"), ("slack", "https://s.example/")):
        message = Message(kind, url, "", json.dumps(item), "key")
        body = json.loads(build_request(message)[1])
        if kind == "ntfy":
            assert len(body["message"].encode()) <= 4_000
            assert body["message"].endswith("…")
        else:
            assert body["text"].count("&amp;") == body["text"].count("&")
            assert "…" in body["text"]
    assert cut_text("abc", 3) == "abc"
    assert cut_text("abcd", 3) == "ab…"
    assert cut_text("äöüß", 7, in_bytes=True) == "äö…"


def test_the_signature_is_the_hmac_that_others_reckon():
    # RFC 4231, test case 2.
    assert sign_body(b"what do ya want for nothing?", "Jefe") == (
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


async def test_a_redirect_is_not_followed(receiver: Receiver):
    with Receiver() as other:
        receiver.statuses, receiver.headers = [302], {"Location": other.url}
        message = Message("webhook", receiver.url, SECRET, json.dumps(ITEM), "key")
        answer = await send_message(message)
        assert other.got == []
    assert not answer.ok
    assert "Redirects are not followed" in answer.describe()


async def test_an_answer_is_read_up_to_a_limit(receiver: Receiver):
    receiver.text = b"<p>\n" * 1_000_000
    message = Message("webhook", receiver.url, SECRET, json.dumps(ITEM), "key")
    answer = await send_message(message)
    assert answer.ok
    assert len(answer.text) == 300


async def test_what_a_server_repeats_of_its_address_is_masked(receiver: Receiver):
    path = "/services/T/Bxyz9/SeCReT%2D1?key=token-of-ours"
    receiver.statuses = [404]
    receiver.text = (
        rb"Cannot POST /services/T/Bxyz9/SeCReT%2D1?key=token-of-ours; "
        rb"\/services\/T\/Bxyz9\/secret-1, secret-1, Bxyz9, token-of-ours, "
    ) + SECRET.encode()
    url = receiver.url.removesuffix("/hook") + path
    message = Message("webhook", url, SECRET, json.dumps(ITEM), "key")
    answer = await send_message(message)
    assert answer.describe().startswith("It answers 404, and says: Cannot POST ")
    for part in ("bxyz9", "secret", "token", "services", SECRET):
        assert part not in answer.text.lower(), answer.text


def test_the_topic_and_the_token_of_ntfy_are_masked():
    message = Message("ntfy", "https://ntfy.sh/my-fleet", "t0ken-secret", "{}", "key")
    assert mask_secrets('{"topic":"my-fleet"} t0ken-secret', message) == (
        '{"topic":"…"} …'
    )
    assert mask_secrets("nothing", Message("slack", "https://x/", "", "{}", "k")) == (
        "nothing"
    )


def test_whole_addresses_are_not_logged_at_info():
    for name in ("httpx2", "httpcore2"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)


@pytest.mark.django_db
def test_the_test_says_what_the_target_answered_and_writes_no_event(
    receiver: Receiver,
):
    target = make_target(receiver.url)
    before = Event.objects.count()
    assert try_target(target, "operator:ann").words.startswith("It answers 200 after ")
    [got] = receiver.got
    assert got.headers["X-Zoea-Signature"] == sign_body(got.body, SECRET)
    assert got.item["data"]["rule"] == "test"
    assert Event.objects.count() == before
    receiver.statuses = [404]
    assert "Check the address." in try_target(target, "operator:ann").words


# --- What can be no target


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("webhook", "ftp://example.org/"),
        ("webhook", "file:///etc/passwd"),
        ("webhook", "http://"),
        ("webhook", "https://ann:pw@example.org/"),
        ("webhook", "https://example.org:99999/"),
        ("webhook", "https://example.org/ x"),
        ("webhook", "https://[::1/"),
        ("ntfy", "https://ntfy.sh/"),
    ],
)
@pytest.mark.django_db
def test_an_address_that_cannot_be_called_is_refused(kind: str, url: str):
    with pytest.raises(ActionError, match="url: "):
        save_alert_target(target=AlertTarget(name="x", kind=kind), url=url)


@pytest.mark.django_db
def test_a_stored_token_goes_to_no_other_server():
    target = make_target("https://ntfy.sh/fleet", kind="ntfy")
    save_alert_target(target=target, url="https://ntfy.sh/other")
    with pytest.raises(ActionError, match="secret: the stored one"):
        save_alert_target(target=target, url="https://evil.example/fleet")
    save_alert_target(target=target, url="https://evil.example/fleet", secret="")
    assert target.secret == ""


@pytest.mark.django_db
def test_who_changes_an_old_copy_takes_back_nothing_of_others():
    target = make_target("https://example.org/old")
    old = AlertTarget.objects.get()
    save_alert_target(
        target=target,
        values={"enabled": False},
        url="https://example.org/new",
        secret="another-secret",
    )
    save_alert_target(target=old, values={"name": "night shift"})
    row = AlertTarget.objects.get()
    assert (row.name, row.enabled) == ("night shift", False)
    assert (row.url, row.secret) == ("https://example.org/new", "another-secret")
    assert (old.name, old.enabled, old.url) == (row.name, row.enabled, row.url)


@pytest.mark.django_db
def test_a_webhook_without_a_secret_gets_one_that_is_shown_once():
    target = AlertTarget(name="x", kind="webhook")
    made = save_alert_target(target=target, url="https://example.org/")
    assert len(made) >= 32
    assert made == target.secret
    assert made not in target.sealed_secret
    assert save_alert_target(target=target) == ""
