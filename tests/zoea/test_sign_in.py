"""Coming in and going out with a browser, and the probes."""

from __future__ import annotations

import io
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from memory.models import AuditEntry
from tests.programs import ROOT
from zoea import middleware, rate_limits
from zoea.auth import create_sign_in_link, hash_secret, is_loopback
from zoea.models import ApiToken, SignInLink
from zoea.rate_limits import Limiter

in_database = pytest.mark.django_db


# As the browser of this machine calls it.
LOCAL: dict[str, Any] = {"HTTP_HOST": "localhost:8000"}


@in_database
def test_a_link_signs_in_once_as_the_local_admin() -> None:
    path = create_sign_in_link()
    assert path.startswith("/sign-in/")
    first = Client(**LOCAL)
    response = first.get(path)
    assert (response.status_code, response["Location"]) in [(302, "fleet"), (302, "/")]
    assert first.get(f"{ROOT}/myses").status_code == 200
    admin = User.objects.get()
    assert admin.username == "admin"
    assert admin.is_superuser
    assert not admin.has_usable_password()
    second = Client(**LOCAL)
    again = second.get(path)
    assert again.status_code == 410
    for words in (b"used already", b"make up", b'name="username"'):
        assert words in again.content
    assert second.get(f"{ROOT}/myses").status_code == 401


@in_database
def test_a_link_is_stored_as_a_hash_only() -> None:
    secret = create_sign_in_link().rstrip("/").rsplit("/", 1)[1]
    assert SignInLink.objects.get().digest == hash_secret(secret) != secret


@in_database
@pytest.mark.parametrize(
    "extra",
    [
        {"REMOTE_ADDR": "192.0.2.7"},
        {"REMOTE_ADDR": "2001:db8::1"},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_FORWARDED": "for=192.0.2.7"},
        {"HTTP_X_FORWARDED_PROTO": "http"},
        {"HTTP_X_FORWARDED_HOST": "zoea.example.org"},
        {"HTTP_X_REAL_IP": "127.0.0.1"},
        {"HTTP_VIA": "1.1 proxy"},
        {"HTTP_CF_CONNECTING_IP": "127.0.0.1"},
        {"HTTP_TRUE_CLIENT_IP": "127.0.0.1"},
        {"HTTP_X_CLIENT_IP": "127.0.0.1"},
        # A proxy that adds nothing, and passes on the name by which it was reached.
        {"HTTP_HOST": "testserver"},
        {"HTTP_HOST": "192.0.2.1"},
    ],
)
def test_a_link_works_from_loopback_only_and_is_not_used_up(
    extra: dict[str, Any], settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    path = create_sign_in_link()
    assert Client(**{**LOCAL, **extra}).get(path).status_code == 403
    assert Client(**LOCAL).get(path).status_code == 302


@in_database
@pytest.mark.parametrize("setting", ["ZOEA_TLS", "ZOEA_PROXIES", "ZOEA_ORIGINS"])
def test_a_link_works_nowhere_if_the_settings_name_a_proxy(
    settings: Any, setting: str
) -> None:
    setattr(
        settings, setting, ["https://zoea.example.org"] if "ORIGIN" in setting else 1
    )
    path = create_sign_in_link()
    refused = Client(**LOCAL).get(path)
    assert refused.status_code == 403
    assert b"name and password" in refused.content
    assert SignInLink.objects.get().used_at is None


@in_database
def test_a_preview_does_not_use_a_link_up() -> None:
    path = create_sign_in_link()
    assert Client(**LOCAL).head(path).status_code == 204
    preview = Client(**LOCAL).get(path, headers={"Sec-Purpose": "prefetch;prerender"})
    assert preview.status_code == 204
    assert Client(**LOCAL).get(path).status_code == 302


@in_database
def test_sign_in_with_a_password_goes_where_one_was_going() -> None:
    User.objects.create_user("ann", password="correct horse")
    client = Client()
    sent = client.get("/turns/1/")
    assert sent["Location"] == "/sign-in/?next=/turns/1/"
    body = {"username": "ann", "password": "correct horse", "next": "/turns/1/"}
    wrong = client.post("/sign-in/", {**body, "password": "wrong"})
    assert wrong.status_code == 422
    assert b'role="alert"' in wrong.content
    # Whoever tries again still goes where they were going.
    assert b'name="next" value="/turns/1/"' in wrong.content
    assert client.post("/sign-in/", body)["Location"] == "/turns/1/"
    assert client.get("/sign-in/").status_code == 302
    client.post("/sign-out/")
    assert client.get("/").status_code == 302


@in_database
@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "javascript:x"]
)
def test_sign_in_never_leads_elsewhere(elsewhere: str) -> None:
    User.objects.create_user("ann", password="correct horse")
    body = {"username": "ann", "password": "correct horse", "next": elsewhere}
    assert Client().post("/sign-in/", body)["Location"] == "/"


@in_database
def test_guessing_passwords_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "wrong_passwords", Limiter(rate=0.01, burst=3))
    monkeypatch.setattr(rate_limits, "wrong_names", Limiter(rate=0.01, burst=5))
    User.objects.create_user("ann", password="correct horse")
    User.objects.create_user("bob", password="correct horse")

    def attempt(name: str, password: str) -> int:
        body = {"username": name, "password": password}
        return Client().post("/sign-in/", body).status_code

    assert [attempt("ann", "wrong") for _ in range(4)] == [422, 422, 422, 429]
    assert attempt("ANN", "correct horse") == 429
    assert attempt("bob", "correct horse") == 302
    assert [attempt(name, "wrong") for name in "xyz"] == [422, 422, 429]


@in_database
def test_refused_tries_leave_no_trace_of_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passwords = Limiter(rate=0.01, burst=3, size=4)
    monkeypatch.setattr(rate_limits, "wrong_passwords", passwords)
    monkeypatch.setattr(rate_limits, "wrong_names", Limiter(rate=0.01, burst=6))
    for name in ["ann"] * 3 + list("rstuvwxyz"):
        Client().post("/sign-in/", {"username": name, "password": "wrong"})
    assert passwords.wait("127.0.0.1 ann") > 0


@in_database
@pytest.mark.parametrize(
    ("other", "status"), [("2001:db8:0:4:5:6:7:8", 429), ("2001:db8:0:5::1", 422)]
)
def test_an_ipv6_network_is_one_visitor(
    monkeypatch: pytest.MonkeyPatch, other: str, status: int
) -> None:
    """The /64: whoever has it can come from each of its addresses."""
    monkeypatch.setattr(rate_limits, "wrong_names", Limiter(rate=0.01, burst=1))
    body = {"username": "ann", "password": "wrong"}
    for address, wanted in (("2001:db8:0:4::1", 422), (other, status)):
        answer = Client(REMOTE_ADDR=address).post("/sign-in/", body)
        assert answer.status_code == wanted


@in_database
def test_the_old_password_is_guessed_no_faster_than_at_the_sign_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limits, "wrong_passwords", Limiter(rate=0.01, burst=3))
    user = User.objects.create_superuser("root", password="correct horse")
    browser = Client()
    browser.force_login(user)

    def change(old: str, new: str, again: str = "") -> int:
        body = {
            "old_password": old,
            "new_password1": new,
            "new_password2": again or new,
        }
        return browser.post("/password/", body).status_code

    assert change("correct horse", "battery staple", "another") == 200
    assert change("wrong", "battery staple") == 200
    assert change("correct horse", "battery staple") == 302
    assert [change("wrong", "other staple") for _ in range(4)] == [200, 200, 200, 429]
    assert change("battery staple", "other staple") == 429
    assert browser.get("/password/").status_code == 200
    signing_in = {"username": "Root", "password": "battery staple"}
    assert Client().post("/sign-in/", signing_in).status_code == 429


@in_database
def test_a_viewer_changes_their_own_password_and_stays_signed_in() -> None:
    user = User.objects.create_user("ann", password="correct horse")
    browser = Client()
    browser.force_login(user)
    assert 'href="/password/"' in browser.get("/").content.decode()
    sent = browser.get("/admin/password_change/", follow=True).redirect_chain
    assert sent == [("/password/", 302)]
    words = {"old_password": "correct horse", "new_password1": "short"}
    page = browser.post("/password/", words | {"new_password2": "short"})
    assert "too short" in page.content.decode()
    new = "battery staple"
    words |= {"new_password1": new, "new_password2": new}
    told = browser.post("/password/", words, follow=True)
    assert told.redirect_chain == [("/", 302)]
    assert "Your password is changed." in told.content.decode()
    user.refresh_from_db()
    assert user.check_password(new)
    [row] = AuditEntry.objects.filter(action="user.password")
    assert (row.who, row.object) == ("operator:ann", "user:ann")


@in_database
def test_who_has_no_password_is_told_where_to_get_one() -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("admin"))
    page = browser.get("/password/").content.decode()
    assert "manage.py changepassword admin" in page
    assert "old_password" not in page


@in_database
def test_pages_send_strangers_to_the_sign_in_page_and_htmx_whole() -> None:
    assert Client().get("/").status_code == 302
    answer = Client().get("/", headers={"HX-Request": "true"})
    assert answer["HX-Redirect"].startswith("/sign-in/")
    assert "HX-Request" in answer["Vary"]


def test_the_sign_in_form_needs_its_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post("/sign-in/", {"username": "a"}).status_code == 403


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.168.0.1", False),
        ("::ffff:192.168.0.1", False),
        ("", False),
        (None, False),
        ("localhost", False),
    ],
)
def test_loopback_addresses(address: str | None, local: bool) -> None:
    assert is_loopback(address) is local


def test_healthz_is_always_200_also_for_unknown_hosts() -> None:
    response = Client().get("/healthz", headers={"Host": "10.1.2.3"})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@in_database
def test_readyz_tells_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "SHARED", 600.0)
    middleware.readiness.forget()
    assert Client().get("/readyz").status_code == 200
    monkeypatch.setattr(middleware, "count_pending_migrations", lambda: 2)
    # The answer of a moment ago is given again: each check opens a connection.
    assert Client().get("/readyz").status_code == 200
    middleware.readiness.forget()
    waiting = Client().get("/readyz")
    assert waiting.status_code == 503
    assert "2 migrations" in waiting.json()["detail"]

    def down(**kwargs: object) -> None:
        raise psycopg.OperationalError("password=secret")

    monkeypatch.setattr(psycopg, "connect", down)
    middleware.readiness.forget()
    lost = Client().get("/readyz")
    assert lost.status_code == 503
    assert b"secret" not in lost.content


@in_database
def test_create_token_prints_the_token_and_nothing_else() -> None:
    out, err = io.StringIO(), io.StringIO()
    call_command("create_token", "ci", role="operator", stdout=out, stderr=err)
    secret = out.getvalue().strip()
    token = ApiToken.objects.get()
    assert (token.name, token.role, token.digest) == (
        "ci",
        "operator",
        hash_secret(secret),
    )
    good = {"Authorization": f"Bearer {secret}"}
    assert Client().get(f"{ROOT}/myses", headers=good).status_code == 200
    with pytest.raises(CommandError, match="already") as refused:
        call_command("create_token", "ci", role="viewer", stdout=out, stderr=err)
    assert refused.value.returncode == 2
    with pytest.raises(CommandError, match="name"):
        call_command("create_token", " ", role="viewer", stdout=out, stderr=err)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.integers(1, 9))
def test_a_limiter_never_gives_more_than_its_rate(
    gaps: list[float], burst: int
) -> None:
    now = 0.0
    limiter = Limiter(rate=0.5, burst=burst, clock=lambda: now)
    given_out = 0
    for gap in gaps:
        now += gap
        wait = limiter.take("x")
        given_out += wait == 0
        assert given_out <= burst + now * 0.5 + 1e-6
        if wait:
            assert limiter.wait("x") == pytest.approx(wait)
            now += wait + 1e-6
            assert limiter.take("x") == 0
            given_out += 1
