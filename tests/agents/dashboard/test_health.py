"""What needs somebody, and the form or page where each of it is mended."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pydantic_ai.exceptions import ModelHTTPError

from agents.dashboard import health, troubles
from agents.dashboard.live import fragments
from agents.game.client import GameUnreachableError
from agents.llm.endpoints import resolve
from agents.llm.errors import make_model_error
from agents.llm.model_types import ModelError
from agents.models import ModelCall, Mysis, Provider, Turn
from agents.runtime.finish import Ending, finish_turn
from agents.runtime.turn import choose_ending
from agents.runtime.turn_rows import TurnHandle
from memory.context.types import STATE_LEFT_OUT
from memory.models import ContextPolicy, SentContext
from tests.factories import make_mysis, make_turn

pytestmark = pytest.mark.django_db


def worker(seconds_ago: int = 0) -> None:
    """A worker's sign of life."""
    beat = timezone.now() - timedelta(seconds=seconds_ago)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (%s)", [beat]
        )


def send_view(mysis: Mysis, **stats: object) -> None:
    """Store a call's view with these figures."""
    call = ModelCall.objects.create(turn=make_turn(mysis), number=1, model="pilot")
    SentContext.objects.create(mysis=mysis, call=call, view={}, stats=stats)


def head() -> str:
    """The line of the fleet page."""
    drawn = fragments.draw_fleet_head(health.read_health(timezone.now()))
    return next(one.html for one in drawn if one.id == "fleet-health")


def fix(mysis: Mysis) -> troubles.Fix:
    """Where its error leads to."""
    return troubles.find_fix(mysis, troubles.load_provider_ids())


def test_who_tries_again_is_no_picture_of_health():
    waiting = make_mysis(
        name="Ada",
        state="running",
        activity="waiting to try again",
        last_error="The provider is out of reach. " * 40,
        last_memory_at=timezone.now(),
    )
    make_mysis(name="Brahe", state="running", last_memory_at=timezone.now())
    [trouble] = health.read_health(timezone.now()).troubles
    assert (trouble.mysis.name, trouble.remedy) == ("Ada", "It tries again by itself.")
    assert len(trouble.text) <= 200
    head = {
        one.id: one.html
        for one in fragments.draw_fleet_head(health.read_health(timezone.now()))
    }
    assert "All is well" not in head["fleet-health"]
    waiting.last_error = ""
    waiting.save()
    assert health.read_health(timezone.now()).troubles == ()


def test_a_view_that_had_to_do_without_the_state_is_a_trouble():
    policy = ContextPolicy.objects.create(name="small")
    now = timezone.now()
    mysis = make_mysis(name="Ada", state="running", policy=policy, last_memory_at=now)
    send_view(mysis, warnings=["Another."])
    assert health.read_health(now).troubles == ()
    send_view(mysis, warnings=[STATE_LEFT_OUT])
    [trouble] = health.read_health(now).troubles
    assert trouble.mysis == mysis
    assert "no room" in trouble.text
    assert trouble.fix.link == f"/admin/memory/contextpolicy/{policy.pk}/change/"
    send_view(mysis)
    assert health.read_health(now).troubles == ()


def test_without_a_worker_nothing_is_well():
    make_mysis(name="Ada", state="running", last_memory_at=timezone.now())
    assert "No worker runs" in head()
    worker(seconds_ago=300)
    assert "No worker runs" in head()
    assert "The last one was seen" in head()
    worker()
    assert "No worker runs" not in head()
    assert "All is well" in head()


def test_who_is_in_several_troubles_is_listed_once_and_the_rest_is_on_health():
    worker()
    long_ago = timezone.now() - timedelta(hours=1)
    make_mysis(
        name="Ada", state="running", last_memory_at=long_ago, stuck="It repeats mine()."
    )
    [trouble] = health.read_health(timezone.now()).troubles
    assert "nothing for more than five minutes" in trouble.text
    assert "It repeats mine()." in trouble.text
    for number in range(health.SHOWN):
        make_mysis(
            name=f"M{number}", state="running", hold=f"Budget {number} is spent."
        )
    assert '<a href="/health/">and 1 more</a>' in head()


def test_every_trouble_leads_somewhere(client: Client, admin_client: Client):
    worker()
    now = timezone.now()
    make_mysis(name="A", state="errored", last_error="")
    make_mysis(name="B", state="running", last_memory_at=now - timedelta(hours=1))
    make_mysis(name="C", state="running", hold="The day's money is spent.")
    make_mysis(name="D", state="running", stuck="It repeats mine().")
    make_mysis(name="E", state="running", last_error="Who knows.")
    found = health.read_health(now, most=9).troubles
    assert len(found) == 5
    for trouble in found:
        assert trouble.remedy
        assert admin_client.get(trouble.fix.link.split("#")[0]).status_code == 200


def errored(model: str, error: Exception, **fields: object) -> Mysis:
    return make_mysis(
        name=f"M{Mysis.objects.count()}",
        state="errored",
        model=model,
        last_error=str(error),
        last_error_code=choose_ending(error).code,
        **fields,
    )


def test_errors_of_a_provider_lead_to_its_form():
    row = Provider(name="zen", kind="openai", base_url="http://127.0.0.1:9/v1")
    row.api_key = "sk-x"
    row.save()
    endpoint = resolve("zen:gpt")
    form = f"/admin/agents/provider/{row.pk}/change/"
    for status in (401, 403, 404, 429, 500):
        refusal = ModelHTTPError(status, "gpt", {"error": "No."})
        error = make_model_error(endpoint, refusal)
        assert fix(errored("zen:gpt", error)).link == form, status
    wrong = make_model_error(endpoint, ModelHTTPError(400, "gpt", {"error": "Eh?"}))
    mysis = errored("zen:gpt", wrong)
    assert fix(mysis).link == f"/myses/{mysis.name}/context/"
    # A whole request too large is a matter of the policy, not of the provider.
    policy = ContextPolicy.objects.create(name="wide", strategy="full")
    large = make_model_error(endpoint, ModelHTTPError(413, "gpt", {"error": "Long."}))
    mysis = errored("zen:gpt", large, policy=policy)
    assert fix(mysis).link == f"/admin/memory/contextpolicy/{policy.pk}/change/"


def test_errors_of_a_name_lead_to_the_model_and_of_a_key_to_a_provider(settings):
    settings.OPENAI_API_KEY = ""
    settings.OPENAI_BASE_URL = ""
    with pytest.raises(ModelError) as unknown:
        resolve("nobody:gpt")
    mysis = errored("nobody:gpt", unknown.value)
    assert fix(mysis).link == f"/myses/{mysis.name}/edit/model/"
    with pytest.raises(ModelError) as keyless:
        resolve("openai:gpt")
    assert fix(errored("openai:gpt", keyless.value)).link == (
        "/admin/agents/provider/add/"
    )
    settings.OPENAI_API_KEY = "sk-x"
    missing = make_model_error(resolve("openai:gpt"), ModelHTTPError(404, "gpt", {}))
    mysis = errored("openai:gpt", missing)
    assert fix(mysis).label == "Change its model"


def test_errors_of_the_game_lead_to_health_and_unknown_ones_to_the_settings():
    lost = errored("pilot", GameUnreachableError("The game server cannot be reached."))
    assert fix(lost).link == "/health/"
    for code in ("", "of-a-later-version"):
        mysis = make_mysis(
            name=f"M{Mysis.objects.count()}", last_error="Eh?", last_error_code=code
        )
        assert fix(mysis).link == f"/admin/agents/mysis/{mysis.pk}/change/"
        assert fix(mysis).label == "Its settings"


def test_the_cause_of_an_error_is_stored_with_it_and_goes_with_it():
    mysis = make_mysis(name="Ada", state="running")
    lost = choose_ending(GameUnreachableError("The game server cannot be reached."))
    for ending, code in ((lost, "game"), (Ending(Turn.Outcome.DONE, acted=True), "")):
        turn = make_turn(mysis)
        begun = TurnHandle(
            turn.pk, mysis.pk, mysis.epoch, turn.number, "nudge", "pilot", {}, 9
        )
        finish_turn(begun, ending, 0)
        mysis.refresh_from_db()
        assert (mysis.last_error_code, bool(mysis.last_error)) == (code, bool(code))
