"""The HTML of every kind of page, judged by html-validate's rules of the standard."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.urls import get_resolver

from agents import actions
from agents.context_inputs import preview_context
from agents.lab.kept_replays import start_replay
from agents.lab.policies import read_policies
from agents.lab.replay_job import run_replay
from agents.models import AlertTarget, ModelCall, Mysis, Order, Rewind, RewindStep
from memory.assembly.prepare import record_call
from tests.browser import scenes
from tests.browser.test_accessibility import administered, everything, of_a_call
from tests.browser.test_map_and_lanes import chart
from tests.factories import make_turn
from tests.required import require
from tests.zoea.test_masking import list_routes

JUDGE = Path(sys.prefix) / "html/node_modules/.bin/html-validate"
TEMPLATES = Path(__file__).parents[3] / "templates"
WINDOW = {"strategy": "window", "options": {"window": 4}}
# Fragments, files, sockets, what only takes a POST, and what sends elsewhere.
NO_PAGES = """
    /api/v1/openapi.json
    /admin/login/ /admin/password_change/ /alerts/settings/ /alerts/targets/1/delete/ /alerts/targets/1/test/
    /branches/1/undo/ /bulk/ /digest/last-visit/ /favicon.ico /feed/ /idle/restart/
    /idle/start/ /lab/1/delete/ /lab/default/ /lanes/place/ /map/ask/ /metrics
    /myses/Ada/context/hour/ /myses/Ada/context/policy/ /myses/Ada/download/
    /myses/Ada/edit/pins/x/ /myses/Ada/edit/prompt/price/ /myses/Ada/messages/1/
    /myses/Ada/messages/1/inspect/ /myses/Ada/models/ /myses/Ada/notes/forget/
    /myses/Ada/notes/save/ /myses/Ada/start/ /myses/Ada/stop/ /orders/1/change/
    /orders/1/names/ /palette/ /palette/keys/ /rewinds/1/discard/ /send/ /sign-in/
    /sign-in/x/ /sign-out/ /turns/1/calls/1/rewind/ /turns/1/download/
    /views/1/change/ /views/save/ /ws/dashboard/ /ws/v1/events
"""
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


def add_experiments(ada: Mysis) -> dict[str, int]:
    """A call with its replay, rewind and branch, and an alert target, by their numbers."""
    turn = make_turn(ada, outcome="done")
    call = ModelCall.objects.create(turn=turn, number=1, model=ada.model)
    record_call(call_id=call.pk, prepared=preview_context(ada))
    replay = start_replay(policies=read_policies([WINDOW]), by="operator:x", mysis=ada)
    assert replay.job_id is not None
    run_replay(replay.pk, replay.job_id)
    place = {"turn_id": turn.pk, "turn_number": turn.number, "call_number": 1}
    rewind = Rewind.objects.create(mysis=ada, call_id=call.pk, order="Sell.", **place)
    told = {
        "text": "Aye.", "reasoning": "", "calls": [], "input_tokens": 21_000,
        "output_tokens": 300, "cached_tokens": 0, "cost": "0.0012", "latency_ms": 5200,
    }  # fmt: skip
    RewindStep.objects.create(rewind=rewind, place=1, recorded=told, made=told, **place)
    asked = ada.memories.earliest("pk")
    actions.stop_mysis(mysis=ada, by="operator:x")
    branch = actions.take_branch(mysis=ada, asked=asked.pk, text="No.", by="operator:x")
    target = AlertTarget(name="Phone", kind="webhook")
    target.url = "http://localhost:9/"
    target.save()
    return {
        "turn_id": turn.pk, "memory_id": asked.pk, "rewind_id": rewind.pk,
        "branch_id": branch.pk, "target_id": target.pk, "replay": replay.pk,
    }  # fmt: skip


def test_every_address_of_a_page_has_a_valid_one(admin: Client, tmp_path: Path) -> None:
    """Of what the addresses list, so also new ones."""
    ada = scenes.busy_fleet()["Ada"]
    known, order = add_experiments(ada), Order.objects.earliest("pk").pk
    values = known | {
        "key": "Ada", "number": 1, "place": 1, "part": "prompt", "step": "provider",
        "prompt_id": actions.get_default_prompt().pk, "view_id": 1, "secret": "x",
    }  # fmt: skip
    pages, others = {}, set()
    for address in list_routes(get_resolver(), "/", values):
        # All of these are a `number`.
        address = address.replace("/lab/1/", f"/lab/{known['replay']}/")
        address = address.replace("/orders/1/", f"/orders/{order}/")
        answer = admin.get(address)
        is_file = answer.streaming or "html" not in answer.get("Content-Type", "")
        if answer.status_code == 200 and not is_file and "<html" in answer.text:
            pages[address] = answer.text
        else:
            others.add(address)
    assert {re.sub(r"\d+/", "1/", address) for address in others} == set(
        NO_PAGES.split()
    )
    lab = f"/lab/{known['replay']}/"
    assert {
        "/lab/", lab, f"{lab}calls/1/", f"/rewinds/{known['rewind_id']}/",
        f"/branches/{known['branch_id']}/", "/myses/Ada/command/", "/myses/Ada/turns/",
        f"/alerts/targets/{known['target_id']}/",
    } <= set(pages)  # fmt: skip
    assert find_faults(tmp_path, pages) == []


def test_pages_without_a_fleet_and_of_strangers_are_valid(
    admin: Client, tmp_path: Path
) -> None:
    pages = read_pages(admin, ["/", "/map/", "/orders/", "/digest/?since=1h"])
    pages |= read_pages(Client(), ["/sign-in/"])
    for name in sorted(path.name for path in TEMPLATES.glob("[45]*.html")):
        pages[name] = render_to_string(name, {"seconds": 3})
    assert find_faults(tmp_path, pages) == []
