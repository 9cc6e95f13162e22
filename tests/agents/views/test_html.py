"""The HTML of every kind of page, judged by html-validate's rules of the standard."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import Client

from agents import actions
from tests.browser import scenes
from tests.browser.test_accessibility import administered, everything, of_a_call
from tests.browser.test_map_and_health import chart
from tests.required import require

JUDGE = Path(sys.prefix) / "html/node_modules/.bin/html-validate"
# What the standard says, without a taste of its own.
RULES = {"root": True, "extends": ["html-validate:standard"]}


pytestmark = pytest.mark.usefixtures("judge")


@pytest.fixture
def judge() -> None:
    """The program, as the Makefile fetches it."""
    require(JUDGE.exists(), f"there is no {JUDGE}: make test fetches it with npm")


def find_faults(folder: Path, pages: dict[str, str]) -> list[str]:
    """What is held against pages, by their addresses; each fault once."""
    (folder / ".htmlvalidate.json").write_text(json.dumps(RULES))
    names = {}
    for number, (address, text) in enumerate(pages.items()):
        names[f"{number}.html"] = address
        (folder / f"{number}.html").write_text(text)
    told = folder / "found.json"
    subprocess.run([JUDGE, f"--formatter=json={told}", *names], cwd=folder, check=False)
    found = json.loads(told.read_text())
    return [
        f"{names[Path(one['filePath']).name]} {fault['line']}: {fault['ruleId']}: "
        f"{fault['message']}"
        for one in found
        for fault in one["messages"]
    ]


def read_pages(client: Client, addresses: list[str]) -> dict[str, str]:
    found = {}
    for address in addresses:
        answer = client.get(address, follow=True)
        assert answer.status_code == 200, address
        found[address] = answer.content.decode()
    return found


def test_every_page_is_valid(admin: Client, tmp_path: Path) -> None:
    fleet = scenes.busy_fleet()
    chart(40)
    ada = fleet["Ada"]
    addresses = everything(fleet) + of_a_call(ada)
    addresses += administered(ada, actions.get_default_prompt())
    assert find_faults(tmp_path, read_pages(admin, addresses)) == []


def test_pages_without_a_fleet_and_of_strangers_are_valid(
    admin: Client, tmp_path: Path
) -> None:
    pages = read_pages(admin, ["/", "/map/", "/orders/", "/digest/?since=1h"])
    pages |= read_pages(Client(), ["/sign-in/"])
    for name in ("404.html", "429.html", "500.html"):
        pages[name] = render_to_string(name, {"seconds": 3})
    assert find_faults(tmp_path, pages) == []
