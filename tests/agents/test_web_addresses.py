"""Logins and keys in web addresses: refused at every door, at their field."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from agents.models import AlertTarget, Provider
from agents.models.llm import AskedWindow
from agents.provider_trial import try_provider
from bench.processes import ROOT
from tests.programs import Program

BAD = ("http://ann:hunter2@127.0.0.1:9/v1", "http://ann@127.0.0.1:9/v1")
SECRET = "cobaltbadger"
# What follows a path, as gateways want it of their callers.
QUERIES = (
    f"http://127.0.0.1:9/v1?key={SECRET}",
    f"http://127.0.0.1:9/v1/?code={SECRET}&page=1",
    f"http://127.0.0.1:9?{SECRET}",
    f"http://127.0.0.1:9/v1#{SECRET}",
    f"http://127.0.0.1:9#@{SECRET}/v1",
    "http://127.0.0.1:9/v1?",
)
LOGIN, QUERY = "Take the name and the password out", "Take the part after ? or # out"
REFUSED = [*((one, LOGIN) for one in BAD), *((one, QUERY) for one in QUERIES)]


def test_a_provider_is_not_stored_with_a_secret_in_its_address(
    admin_program: Program, admin_client: Client
) -> None:
    Provider.objects.create(name="other", kind="openai")
    for address, said in REFUSED:
        values = {"name": "mine", "kind": "openai", "base_url": address}
        made = admin_program.post("/providers", values)
        changed = admin_program.patch("/providers/other", {"base_url": address})
        for answer in (made, changed):
            assert answer.status_code == 422
            assert answer.json()["detail"].startswith(f"base_url: {said}")
        for url in (reverse("admin:agents_provider_add"), "/welcome/provider/"):
            page = admin_client.post(url, values | {"insist": "1"})
            assert page.status_code in (200, 422)
            assert said in page.content.decode()
    assert list(Provider.objects.values_list("name", "base_url")) == [("other", "")]


@pytest.mark.parametrize("address", QUERIES[:4:3])
def test_an_older_row_with_a_query_is_not_asked_and_not_shown_in_clear(
    admin_program: Program,
    admin_client: Client,
    address: str,
) -> None:
    row = Provider.objects.create(
        name="old", kind="openai", base_url=address, default_model="m"
    )
    window = AskedWindow.objects.create(kind="openai", base_url=address, model="m")
    answers = [
        admin_program.get("/providers"),
        admin_program.get("/providers/old"),
        admin_client.get("/health/"),
        admin_client.get(reverse("admin:agents_provider_changelist")),
        admin_client.get(reverse("admin:agents_provider_change", args=[row.pk])),
        admin_client.get(reverse("admin:agents_askedwindow_changelist")),
        admin_client.get(reverse("admin:agents_askedwindow_change", args=[window.pk])),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert SECRET not in answer.content.decode()
        assert "127.0.0.1:9" in answer.content.decode()
    trial = try_provider(row)
    assert not trial.good
    assert "after ? or #" in trial.words
    with pytest.raises(CommandError, match="after \\? or #") as refused:
        call_command("check_provider", "old")
    for words in (trial.words, str(refused.value)):
        assert SECRET not in words


@pytest.mark.parametrize("address", BAD)
def test_an_alert_target_is_not_stored_with_a_login(
    admin_program: Program, address: str
) -> None:
    values = {"name": "on call", "kind": "webhook", "url": address}
    answer = admin_program.post("/alerts/targets", values | {"rules": ["hull"]})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("url: take the name and the password")
    assert not AlertTarget.objects.exists()


WORDS = "take the name and the password"
# The game's own query chooses its tools, and is shown nowhere.
SETTINGS = [
    ("SPACEMOLT_MCP_URL", BAD[0], WORDS),
    ("OPENAI_BASE_URL", QUERIES[0], "take the part after ? or #"),
    ("OLLAMA_BASE_URL", "http://[x", "is no"),
]


@pytest.mark.parametrize(("name", "address", "said"), SETTINGS)
def test_settings_with_a_secret_are_one_line(
    name: str, address: str, said: str
) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=os.environ | {name: address},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, "")
    [line] = found.stderr.splitlines()
    assert name in line
    assert said in line
    assert "hunter2" not in line
    assert SECRET not in line
