"""Names and passwords in web addresses: refused at every door, at their field."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.test import Client
from django.urls import reverse

from agents.models import AlertTarget, Provider
from bench.processes import ROOT
from tests.programs import Program

BAD = ("http://ann:hunter2@127.0.0.1:9/v1", "http://ann@127.0.0.1:9/v1")


@pytest.mark.parametrize("address", BAD)
def test_a_provider_is_not_stored_with_a_login(
    admin_program: Program, admin_client: Client, address: str
) -> None:
    values = {"name": "mine", "kind": "openai", "base_url": address}
    Provider.objects.create(name="other", kind="openai")
    made = admin_program.post("/providers", values)
    changed = admin_program.patch("/providers/other", {"base_url": address})
    for answer in (made, changed):
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("base_url: Take the name and")
    for url in (reverse("admin:agents_provider_add"), "/welcome/provider/"):
        page = admin_client.post(url, values | {"insist": "1"})
        assert page.status_code in (200, 422)
        assert "Take the name and the password out" in page.content.decode()
    assert list(Provider.objects.values_list("name", "base_url")) == [("other", "")]


@pytest.mark.parametrize("address", BAD)
def test_an_alert_target_is_not_stored_with_a_login(
    admin_program: Program, address: str
) -> None:
    values = {"name": "on call", "kind": "webhook", "url": address}
    answer = admin_program.post("/alerts/targets", values | {"rules": ["hull"]})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("url: take the name and the password")
    assert not AlertTarget.objects.exists()


@pytest.mark.parametrize(
    "name", ["SPACEMOLT_MCP_URL", "OPENAI_BASE_URL", "OLLAMA_BASE_URL"]
)
@pytest.mark.parametrize(
    ("address", "said"),
    [*((one, "take the name and the password") for one in BAD), ("http://[x", "is no")],
)
def test_settings_with_a_login_are_one_line(name: str, address: str, said: str) -> None:
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
