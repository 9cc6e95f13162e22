"""Behind proxies: the nginx of docs/operations.md, whom it lets in, and who they are."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.core.management import call_command
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from agents import events
from agents.events import Kind
from bench.processes import ROOT, run_server
from tests.programs import MCP_ACCEPT, MCP_INITIALIZE
from tests.required import require
from zoea import proxies
from zoea.auth import create_sign_in_link, create_token
from zoea.models import SignInLink

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
MAIN = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr error;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{site}
}}
"""
HSTS = "Strict-Transport-Security"
PATIENCE = 120.0
ORIGIN = "https://zoea.example.org"


# --- Who the visitor is


def scope(*forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", one.encode()) for one in forwarded]
    return {"type": "http", "client": ("192.0.2.1", 4711), "headers": headers}


@pytest.mark.parametrize(
    ("trusted", "forwarded", "address"),
    [
        (0, [], "192.0.2.1"),
        (0, ["198.51.100.7"], "192.0.2.1"),
        (1, [], "192.0.2.1"),
        (1, ["198.51.100.7"], "198.51.100.7"),
        (1, ["10.9.9.9, 198.51.100.7"], "198.51.100.7"),
        (2, ["10.9.9.9, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        (2, ["10.9.9.9", "198.51.100.7", "10.0.0.2"], "198.51.100.7"),
        # Whoever passes by a proxy is only what the last one saw.
        (2, ["198.51.100.7"], "192.0.2.1"),
        (1, ["198.51.100.7:50123"], "198.51.100.7"),
        (1, ["[2001:db8::7]:50123"], "2001:db8::7"),
        (1, ["2001:db8:0::7"], "2001:db8::7"),
        (1, ["::ffff:198.51.100.7"], "198.51.100.7"),
        (1, ["198.51.100.7, unknown"], "192.0.2.1"),
        (1, ["198.51.100.7,"], "192.0.2.1"),
    ],
)
def test_the_visitor_stands_so_many_places_from_the_right(
    settings: Any, trusted: int, forwarded: list[str], address: str
) -> None:
    settings.ZOEA_PROXIES = trusted
    found = proxies.find_visitor(scope(*forwarded))
    assert found is not None
    assert found[0] == address


def test_an_uncounted_proxy_is_told_of_once(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ZOEA_PROXIES = 0
    proxies._warn_once.cache_clear()
    for _ in range(3):
        proxies.find_visitor(scope("198.51.100.7"))
    # Other threads write to the log as well.
    [warning] = [text for text in caplog.messages if "ZOEA_PROXIES" in text]
    assert "ZOEA_PROXIES is 0" in warning


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "address"),
    [
        ("ZOEA_TLS", True, "/sign-in/"),
        ("ZOEA_PROXIES", 1, "/sign-in/"),
        ("ZOEA_ORIGINS", [ORIGIN], f"{ORIGIN}/sign-in/"),
    ],
)
def test_up_offers_no_link_where_none_would_work(
    settings: Any, name: str, value: object, address: str
) -> None:
    setattr(settings, name, value)
    out = io.StringIO()
    call_command("prepare", stdout=out)
    *said, last = out.getvalue().splitlines()
    assert last == address
    assert "createsuperuser" in said[-1]
    assert not SignInLink.objects.exists()
    User.objects.create_superuser("ann", password="correct horse")
    out = io.StringIO()
    call_command("prepare", stdout=out)
    assert out.getvalue().splitlines() == [last]


# --- A real nginx


@dataclass(frozen=True)
class Site:
    """A server behind nginx; ``behind`` is its own port, ``trust`` nginx's certificate."""

    tls: int
    plain: int
    behind: int
    trust: ssl.SSLContext

    def visitor(self, number: int = 1) -> httpx2.Client:
        """A browser or program with an address of its own."""
        transport = httpx2.HTTPTransport(
            verify=self.trust, local_address=f"127.0.0.{number}"
        )
        return httpx2.Client(
            transport=transport, base_url=self.origin, timeout=PATIENCE
        )

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.tls}"

    @property
    def direct(self) -> str:
        return f"http://127.0.0.1:{self.behind}"


def make_certificate(folder: Path) -> ssl.SSLContext:
    """Write ``cert.pem`` and ``key.pem`` for 127.0.0.1; a context that trusts them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def read_documented_site() -> str:
    """The example of docs/operations.md."""
    document = (ROOT / "docs" / "operations.md").read_text()
    found = re.search(r"```nginx\n(.*?)```", document, re.DOTALL)
    assert found is not None
    return found[1]


def configure(folder: Path, tls: int, plain: int, behind: int) -> Path:
    """The documented example with the ports, name and certificate of a test."""
    here = {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
        "zoea.example.org;": "127.0.0.1;",
        "/etc/letsencrypt/live/zoea.example.org/fullchain.pem": f"{folder}/cert.pem",
        "/etc/letsencrypt/live/zoea.example.org/privkey.pem": f"{folder}/key.pem",
        "http://127.0.0.1:8000;": f"http://127.0.0.1:{behind};",
    }
    site = read_documented_site()
    for documented, ours in here.items():
        assert documented in site
        site = site.replace(documented, ours)
    file = folder / "nginx.conf"
    file.write_text(MAIN.format(folder=folder, site=site))
    return file


def find_free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            continue
        return
    raise AssertionError(f"nginx ended with {process.returncode}")


@pytest.fixture(scope="module")
def site(django_db_setup: None, django_db_blocker: Any) -> Iterator[Site]:
    require(NGINX, "nginx is not installed: apt-get install nginx-light")
    tls, plain = find_free_ports(2)
    origin = f"https://127.0.0.1:{tls}"
    with (
        tempfile.TemporaryDirectory(prefix="zoea-nginx-") as name,
        django_db_blocker.unblock(),
        run_server(ZOEA_TLS="1", ZOEA_PROXIES="1", ZOEA_ORIGINS=origin) as server,
    ):
        folder = Path(name)
        trust = make_certificate(folder)
        file = configure(folder, tls, plain, server.port)
        process = subprocess.Popen([str(NGINX), "-p", name, "-c", str(file)])
        try:
            wait_until_open(tls, process)
            yield Site(tls, plain, server.port, trust)
        finally:
            process.terminate()
            process.wait(timeout=60)


def sign_in(visitor: httpx2.Client, name: str, password: str) -> httpx2.Response:
    visitor.get("/sign-in/")
    body = {
        "username": name,
        "password": password,
        "csrfmiddlewaretoken": visitor.cookies.get("csrftoken", ""),
    }
    origin = str(visitor.base_url).rstrip("/")
    return visitor.post(
        "/sign-in/", data=body, headers={"Referer": f"{origin}/sign-in/"}
    )


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.django_db(transaction=True)
def test_pages_rest_and_mcp_through_nginx(site: Site) -> None:
    User.objects.create_superuser("ann", password="correct horse")
    token = create_token(name="program", role="viewer")[1]
    with site.visitor() as visitor:
        assert sign_in(visitor, "ann", "correct horse").status_code == 302
        assert {one.secure for one in visitor.cookies.jar} == {True}
        answers = [
            visitor.get("/"),
            visitor.get("/admin/"),
            visitor.get("/static/css/base.css"),
            visitor.get("/healthz"),
            visitor.get("/api/v1/myses", headers=bearer(token)),
            visitor.post(
                "/mcp", json=MCP_INITIALIZE, headers=MCP_ACCEPT | bearer(token)
            ),
        ]
        refused = [
            visitor.get("/nowhere"),
            visitor.get("/api/v1/myses", headers=bearer("wrong")),
            visitor.post("/mcp", json=MCP_INITIALIZE, headers=MCP_ACCEPT),
        ]
    assert [one.status_code for one in answers] == [200] * 6
    assert [one.status_code for one in refused] == [404, 401, 401]
    for answer in answers + refused:
        assert answer.headers.get_list(HSTS) == ["max-age=31536000"]


@pytest.mark.django_db(transaction=True)
def test_nothing_is_answered_without_tls(site: Site) -> None:
    token = create_token(name="program", role="viewer")[1]
    plain = httpx2.get(f"http://127.0.0.1:{site.plain}/api/v1/myses")
    assert plain.status_code == 301
    assert plain.headers["Location"].startswith("https://127.0.0.1")
    for path in ("/", "/api/v1/myses"):
        answer = httpx2.get(f"{site.direct}{path}", headers=bearer(token))
        assert answer.status_code == 301
        assert HSTS not in answer.headers
    answer = httpx2.post(
        f"{site.direct}/mcp", json=MCP_INITIALIZE, headers=MCP_ACCEPT | bearer(token)
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "tls_required")


@pytest.mark.django_db(transaction=True)
async def test_both_sockets_through_nginx_and_by_tls_only(site: Site) -> None:
    token = create_token(name="program", role="viewer")[1]
    User.objects.create_superuser("ann", password="correct horse")
    events.append(Kind.ERROR, data={"n": 1})
    with site.visitor() as visitor:
        sign_in(visitor, "ann", "correct horse")
        cookie = {"Cookie": f"sessionid={visitor.cookies['sessionid']}"}
    secure = f"wss://127.0.0.1:{site.tls}"
    async with asyncio.timeout(PATIENCE):
        async with connect(
            f"{secure}/ws/v1/events?token={token}", ssl=site.trust
        ) as stream:
            assert json.loads(await stream.recv())["data"] == {"n": 1}
        async with connect(
            f"{secure}/ws/dashboard/?page=fleet",
            ssl=site.trust,
            additional_headers=cookie,
            origin=Origin(site.origin),
        ) as dashboard:
            assert "fleet-rows" in str(await dashboard.recv())
        for path in (f"/ws/v1/events?token={token}", "/ws/dashboard/?page=fleet"):
            direct = f"ws://127.0.0.1:{site.behind}"
            async with connect(
                direct + path, additional_headers=cookie, origin=Origin(site.direct)
            ) as client:
                with pytest.raises(ConnectionClosed):
                    await client.recv()
                assert client.close_code == 1008
                assert "wss" in str(client.close_reason)


@pytest.mark.django_db(transaction=True)
def test_wrong_passwords_lock_out_their_visitor_alone(site: Site) -> None:
    User.objects.create_user("bob", password="correct horse")
    with site.visitor(2) as guesser, site.visitor(3) as bob:
        statuses = []
        for number in range(12):
            # What a visitor claims to be makes no new one of it.
            guesser.headers["X-Forwarded-For"] = f"10.0.0.{number}"
            statuses.append(sign_in(guesser, "bob", "wrong").status_code)
        assert statuses == [422] * 10 + [429] * 2
        assert sign_in(bob, "bob", "correct horse").status_code == 302


@pytest.mark.django_db(transaction=True)
async def test_wrong_tokens_lock_out_their_visitor_alone(site: Site) -> None:
    token = create_token(name="program", role="viewer")[1]

    def ask(visitor: httpx2.Client, path: str, secret: str) -> int:
        headers = MCP_ACCEPT | bearer(secret)
        if path == "/mcp":
            return visitor.post(path, json=MCP_INITIALIZE, headers=headers).status_code
        return visitor.get(path, headers=headers).status_code

    async def close(number: int) -> int | None:
        async with connect(
            f"wss://127.0.0.1:{site.tls}/ws/v1/events?token=wrong",
            ssl=site.trust,
            local_addr=(f"127.0.0.{number}", 0),
        ) as client:
            async with asyncio.timeout(PATIENCE):
                await client.wait_closed()
            return client.close_code

    # Each second allows one more try: on a busy machine some have come back meanwhile.
    paths = ("/api/v1/myses", "/mcp", "/metrics")
    with site.visitor(4) as guesser, site.visitor(5) as other:
        for path in paths:
            assert 429 in (ask(guesser, path, "wrong") for _ in range(200))
        assert [ask(other, path, "wrong") for path in paths] == [401] * 3
        assert [ask(guesser, path, token) for path in paths] == [200] * 3
        assert 429 in (ask(guesser, paths[0], "wrong") for _ in range(200))
    assert 4429 in [await close(4) for _ in range(20)]
    assert await close(5) == 4401


@pytest.mark.django_db(transaction=True)
def test_a_link_does_not_work_through_nginx_and_is_not_used_up(site: Site) -> None:
    path = create_sign_in_link()
    with site.visitor() as visitor:
        assert visitor.get(path).status_code == 403
    assert SignInLink.objects.get().used_at is None
