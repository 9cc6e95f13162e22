"""What the containers are told, as far as it can be seen without running them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.test import Client

from zoea import settings

TEXT = (settings.BASE_DIR / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
FILLED = re.compile(r"\$\{\w+:?[-?]([^}]*)\}")


def plain(text: str) -> str:
    """With the defaults in the place of what the environment may say."""
    return FILLED.sub(r"\1", text)


def test_several_web_servers_find_a_port_each() -> None:
    (published,) = SERVICES["web"]["ports"]
    address, ports, inside = plain(published).split(":")
    first, _, last = ports.partition("-")
    assert int(last) - int(first) >= 4
    assert address == "127.0.0.1", "who opens it to others puts a proxy in front"
    assert f"--port {inside} " in SERVICES["web"]["command"]


@pytest.mark.django_db
def test_a_web_server_is_asked_whether_it_is_ready() -> None:
    asked = SERVICES["web"]["healthcheck"]["test"]
    (path,) = re.findall(r"127\.0\.0\.1:8000(/\w+)", asked)
    assert path == "/readyz"
    assert Client().get(path).status_code == 200


@pytest.mark.parametrize("name", ["worker", "web", "sandbox", "migrate"])
def test_all_have_time_to_end_by_themselves(name: str) -> None:
    given = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    cut = settings.PROCRASTINATE_WORKER_DEFAULTS["shutdown_graceful_timeout"]
    assert isinstance(cut, float)
    assert given >= cut + 5


def test_the_local_game_runs_only_where_it_is_played() -> None:
    assert SERVICES["sandbox"]["profiles"] == ["sandbox"]
    played = plain(SERVICES["worker"]["environment"]["SPACEMOLT_MCP_URL"])
    assert played.startswith("http://sandbox:")
    assert settings.openings_at(played) == 0


# Where the containers keep things, and the database that they have of their own.
OF_THE_CONTAINERS = {"ZOEA_DATA", "ZOEA_PGBOUNCER"}


@pytest.mark.parametrize("service", ["worker", "web", "migrate", "sandbox"])
def test_every_setting_is_passed_on(service: str) -> None:
    known = (settings.BASE_DIR / ".env.example").read_text()
    named = set(re.findall(r"^#([A-Z_]+)=", known, re.MULTILINE))
    passed = SERVICES[service]["environment"].keys()
    assert named - OF_THE_CONTAINERS - passed == set()
    # Those of OpenTelemetry are its own.
    unknown = passed - named
    assert {name for name in unknown if not name.startswith("OTEL_")} == set()


def test_the_local_game_has_the_ticks_that_the_others_are_told() -> None:
    assert "--tick ${ZOEA_SECONDS_PER_TICK:-10} " in SERVICES["sandbox"]["command"]
