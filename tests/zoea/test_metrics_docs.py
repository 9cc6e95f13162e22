"""Dashboard, alert rules and documents name metrics that are told, and all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from memory.models import AccountClock
from tests.zoea.running import ROOT

DOCS = ROOT / "docs"
DASHBOARD = json.loads((DOCS / "grafana.json").read_text())
RULES = yaml.safe_load((DOCS / "alert-rules.yml").read_text())
SECTION = (
    (DOCS / "operations.md")
    .read_text()
    .split("## Questions and the numbers that answer them")[1]
    .split("\n## ")[0]
)
_METRIC = re.compile(r"\bzoea_[a-z_]+[a-z]\b")
_LABEL = re.compile(r"(\bzoea_[a-z_]+)\{([a-z]+)=\"([^\"]+)\"\}")


@pytest.fixture
def samples(db: None, settings: Settings) -> list[Any]:
    """Every sample of a fleet that has seen a tick."""
    settings.METRICS_PUBLIC = True
    AccountClock.objects.create(username="Ada", tick=7, seen_at=timezone.now())
    text = Client().get("/metrics").content.decode()
    families = text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples]


def list_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for group in RULES["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def list_questions() -> list[str]:
    return [line for line in SECTION.splitlines() if line.startswith("| ")][1:]


def test_whatever_is_asked_for_is_told(samples: list[Any]) -> None:
    told = {sample.name for sample in samples}
    for text in (*list_expressions(), *list_questions()):
        assert set(_METRIC.findall(text)) <= told, text


def test_a_label_that_is_asked_for_has_such_values(samples: list[Any]) -> None:
    told = {
        (sample.name, label, value)
        for sample in samples
        for label, value in sample.labels.items()
    }
    asked = [
        found
        for text in (*list_expressions(), *list_questions())
        for found in _LABEL.findall(text)
    ]
    assert len(asked) > 10
    assert set(asked) <= told


def test_whatever_is_told_answers_a_question(samples: list[Any]) -> None:
    named = set(_METRIC.findall(SECTION))
    shown = set(_METRIC.findall("\n".join(list_expressions())))
    for name in {sample.name for sample in samples}:
        assert name in named, name
        assert name in shown or name.endswith(("_gsum", "_gcount")), name


def test_each_question_has_an_answer() -> None:
    assert len(list_questions()) > 20
    for line in list_questions():
        question, answer = line.strip("|").split("|", 1)
        assert question.strip().endswith("?")
        assert _METRIC.search(answer)


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    [variable] = DASHBOARD["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + x, place["y"] + y)
            for x in range(place["w"])
            for y in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "for", "annotations"} <= set(rule)


def test_a_lost_worker_is_told_of_for_as_long_as_it_may_be_dead() -> None:
    """Of two workers one dies; a deploy has three of them for a while."""
    (rule,) = [
        one for one in RULES["groups"][0]["rules"] if one["alert"] == "ZoeaLostAWorker"
    ]
    found = re.search(
        r"quantile_over_time\(([\d.]+), \S+\[(\d+)([mhd])\]\)", rule["expr"]
    )
    assert found is not None
    share, window = (
        float(found[1]),
        int(found[2]) * {"m": 1, "h": 60, "d": 1440}[found[3]],
    )

    def is_on(minutes: list[int]) -> bool:
        seen = sorted(minutes[-window:])
        return minutes[-1] < seen[ceil(share * (len(seen) - 1))]

    assert all(is_on([2] * 600 + [1] * dead) for dead in (1, 60, 12 * 60))
    assert not is_on([2] * 1440 + [3] * 60 + [2])
