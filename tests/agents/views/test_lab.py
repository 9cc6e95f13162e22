"""The pages of the lab: asking, reading, comparing, putting to use and taking back."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Max, Min
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agents.lab import recommend, replay_job
from agents.models import Event, Mysis, Replay, ReplayCall
from memory.models import AuditEntry, ContextPolicy, SentContext
from tests.agents.views.test_what_if import make_call
from tests.browser import scenes
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
NARROW = {"strategy": "window", "options": {"window": 4}}


@pytest.fixture
def ada() -> Mysis:
    """One with calls; what it was told lately is longer than the narrow policy reads."""
    made = make_mysis(name="Ada", group="miners")
    for _ in range(3):
        scenes.add_conversation(made, exchanges=3)
        make_call(made)
    return made


@pytest.fixture
def narrow() -> ContextPolicy:
    return ContextPolicy.objects.create(name="narrow", **NARROW)


def work(replay: Replay) -> Replay:
    """Do what a worker's process does."""
    assert replay.job_id is not None
    replay_job.run_replay(replay.pk, replay.job_id)
    return Replay.objects.get(pk=replay.pk)


def ask(client: Client, **values: Any) -> Replay:
    """Start a replay by the form."""
    answer = client.post("/lab/", values)
    assert answer.status_code == 302, answer.context["form"].errors
    return Replay.objects.latest("pk")


def test_a_replay_is_asked_for_and_read(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    assert "No replay yet" in admin.get("/lab/").content.decode()
    asked = ask(
        admin,
        whom=f"mysis:{ada.pk}",
        policies=[narrow.pk],
        strategy="full",
        options='{"state_block": false}',
        budget="9000",
    )
    assert [one["name"] for one in asked.policies] == ["narrow", "full"]
    assert asked.policies[1]["budget_tokens"] == 9000
    page = admin.get(f"/lab/{asked.pk}/").content.decode()
    assert "It waits for a worker." in page
    assert "To the first calls" not in page
    assert 'hx-trigger="every 1s"' in page
    work(asked)
    news = admin.get(f"/lab/{asked.pk}/?after=0", headers=HTMX).content.decode()
    assert "<html" not in news
    assert "every 1s" not in news
    assert news.count("beforeend:#replay-rows") == 1
    assert 'id="replay-remove" hx-swap-oob="true">Delete<' in news
    news = admin.get(f"/lab/{asked.pk}/?after=1", headers=HTMX).content.decode()
    assert "To the first calls" not in news
    page = admin.get(f"/lab/{asked.pk}/").content.decode()
    for shown in (
        "3 calls",
        "3 of 3 calls come out",
        "Tokens, mean",
        "look-2",
        "?format=csv",
        f'href="/api/v1/replays/{asked.pk}"',
        "as sent (own)",
        "?b=narrow",
    ):
        assert shown in page, shown
    assert f"Replay {asked.pk}</a>" in admin.get("/lab/").content.decode()


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({}, "policies", "give 1 to 8"),
        ({"strategy": "window", "options": "[3]"}, "options", "JSON object"),
        ({"strategy": "window", "options": "{"}, "options", "JSON object"),
        ({"strategy": "full", "options": '{"window": 3}'}, "options", "unknown for"),
        ({"options": '{"window": 3}'}, "strategy", "Choose the strategy"),
        ({"strategy": "full", "budget": "0"}, "budget", "greater than or equal to 1"),
        ({"strategy": "full", "whom": "label:nobody"}, "whom", "not one of"),
        (
            {"strategy": "full", "since": "2026-01-02T00:00", "until": "2026-01-01T00:00"},
            "until",
            "after the first",
        ),
        ({"strategy": "full", "since": "2999-01-02T00:00"}, "since", "of the past"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_at_its_field(
    admin: Client, values: dict[str, str], field: str, words: str
):
    answer = admin.post("/lab/", values)
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert list(errors) == [field]
    assert words in errors[field][0]
    assert words in answer.content.decode()
    assert not Replay.objects.exists()


def test_a_viewer_reads_and_starts_nothing(
    sign_in: Callable[..., Client], ada: Mysis, narrow: ContextPolicy
):
    asked = work(ask(sign_in(), policies=[narrow.pk]))
    viewer = sign_in("viewer")
    assert "needs an operator" in viewer.get("/lab/").content.decode()
    page = viewer.get(f"/lab/{asked.pk}/").content.decode()
    assert "<form" not in page.partition("<main")[2].partition("</main>")[0]
    assert "Tokens, mean" in page
    for address in ("", f"{asked.pk}/delete/"):
        assert viewer.post(f"/lab/{address}", {}, headers=HTMX).status_code == 403
    # What costs from then on is an admin's to choose.
    policy = f"/myses/{ada.pk}/context/policy/"
    for client in (viewer, sign_in("operator")):
        for address in (policy, "/lab/default/"):
            assert client.post(address, {}, headers=HTMX).status_code == 403
    assert Replay.objects.count() == 1


def test_one_under_way_is_cancelled_and_a_kept_one_deleted_once_asked(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    asked = ask(admin, policies=[narrow.pk])
    answer = admin.post(f"/lab/{asked.pk}/delete/", follow=True)
    assert "is cancelled" in answer.content.decode()
    # Whoever watched it goes to the list.
    assert admin.get(f"/lab/{asked.pk}/", headers=HTMX)["HX-Redirect"] == "/lab/"
    assert admin.get(f"/lab/{asked.pk}/").status_code == 404
    kept = work(ask(admin, policies=[narrow.pk]))
    address = f"/lab/{kept.pk}/delete/"
    assert "Delete replay" in admin.post(address).content.decode()
    admin.post(address, {"confirmed": "yes"})
    assert (Replay.objects.count(), ReplayCall.objects.count()) == (0, 0)


def test_a_call_is_laid_beside_what_a_policy_would_have_sent(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    asked = work(ask(admin, policies=[narrow.pk]))
    address = f"/lab/{asked.pk}/calls/3/"
    answer = admin.get(address, {"b": "narrow"})
    found = answer.context["comparison"]
    assert (found.a.name, found.b.name) == ("own", "narrow")
    assert found.b.tokens < found.a.tokens
    assert answer.context["apart"] == []
    assert "?a=own&amp;b=narrow" in answer.content.decode()
    # A view that depends on the calls before it may be another one here.
    change_figures(asked, "narrow", view="0" * 16)
    answer = admin.get(address, {"b": "narrow"})
    assert answer.context["apart"] == ["narrow"]
    assert "assembled here by itself" in answer.content.decode()
    # Who knows no such policy sees the last beside what was sent.
    assert admin.get(address, {"a": "x", "b": "y"}).context["b"] == "narrow"
    SentContext.objects.all().delete()
    assert "no longer kept" in admin.get(address).content.decode()
    assert admin.get(f"/lab/{asked.pk}/calls/4/").status_code == 404


def test_more_calls_than_a_page_has_are_a_click_away(
    admin: Client, ada: Mysis, narrow: ContextPolicy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agents.views.lab.ROWS", 2)
    asked = work(ask(admin, policies=[narrow.pk]))
    address = f"/lab/{asked.pk}/"
    assert "Show more calls" in admin.get(address).content.decode()
    answer = admin.get(f"{address}?after=2&rows=1", headers=HTMX)
    assert [row.call.place for row in answer.context["rows"]] == [3]
    assert "Show more calls" not in answer.content.decode()
    assert "To the first calls" in admin.get(f"{address}?after=2").content.decode()


# --- The recommendation


def test_the_cheapest_that_lost_nothing_is_put_to_use_and_taken_back(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    work(ask(admin, whom=f"mysis:{ada.pk}", policies=[narrow.pk]))
    found = recommend.recommend_for_mysis(ada)
    assert found is not None
    assert found.best is not None
    assert (found.best.name, found.best.stored) == ("narrow", narrow)
    assert found.best.price < found.own.price
    place = f"/myses/{ada.pk}/context/"
    answer = admin.get(place)
    choice = answer.context["choice"]
    assert "Use <bdi>narrow</bdi> for" in answer.content.decode()
    sent = {"policy": narrow.pk, "version": choice.version}
    answer = admin.post(choice.address, sent, headers={"Referer": place}, follow=True)
    assert "Ada has narrow now" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.policy == narrow
    assert Event.objects.latest("pk").data["changed"] == ["policy"]
    entry = AuditEntry.objects.filter(action="mysis.update").latest("pk")
    assert (entry.before, entry.after) == ({"policy": None}, {"policy": "narrow"})
    text = admin.get(place).content.decode()
    assert "is in use" in text
    assert "Take it back" in text
    # A later replay, with it as the own policy, leaves the way back.
    asked = ask(admin, whom=f"mysis:{ada.pk}", strategy="full", budget="128000")
    work(asked)
    change_figures(asked, "full", valid=False)
    found = recommend.recommend_for_mysis(ada)
    assert found is not None
    assert found.best == found.own
    assert "Take it back" in admin.get(place).content.decode()
    back = admin.get(place).context["choice"]
    # Somebody else was faster: nothing is written over.
    stale = {"policy": "", "version": choice.version}
    assert admin.post(choice.address, stale, headers=HTMX).status_code == 409
    admin.post(choice.address, {"policy": "", "version": back.version})
    ada.refresh_from_db()
    assert ada.policy is None
    assert "Take it back" not in admin.get(place).content.decode()


def test_the_fleet_has_one_too(admin: Client, ada: Mysis, narrow: ContextPolicy):
    assert recommend.recommend_for_fleet() is None
    asked = work(ask(admin, policies=[narrow.pk]))
    address = f"/lab/{asked.pk}/"
    answer = admin.get(address)
    choice = answer.context["choice"]
    assert choice.whom == "the fleet"
    admin.post(choice.address, {"policy": narrow.pk, "version": choice.version})
    assert ContextPolicy.read_default() == narrow
    assert Event.objects.latest("pk").mysis_id == ada.pk
    back = admin.get(address).context["choice"]
    assert (back.is_in_use, back.goes_back, back.before) == (True, True, None)
    stale = {"policy": "", "version": ""}
    assert admin.post(choice.address, stale, headers=HTMX).status_code == 409
    admin.post(choice.address, {"policy": "", "version": back.version})
    assert ContextPolicy.read_default().pk is None
    told = AuditEntry.objects.filter(action="policy.choose").order_by("pk")
    assert [(row.before, row.after) for row in told] == [
        ({"policy": None}, {"policy": "narrow"}),
        ({"policy": "narrow"}, {"policy": None}),
    ]


def test_a_group_is_told_what_is_best_and_has_no_policy_to_choose(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    asked = work(ask(admin, whom="label:miners", policies=[narrow.pk]))
    answer = admin.get(f"/lab/{asked.pk}/")
    assert answer.context["advice"].best.name == "narrow"
    assert answer.context["choice"] is None
    assert "A group or a tag has no policy of its own" in answer.content.decode()
    # What costs nothing is not drawn.
    titles = [chart.title for chart in answer.context["charts"]]
    assert titles == ["Tokens of a call", "Shared with the call before"]
    # It counts for a Mysis of the group.
    found = recommend.recommend_for_mysis(ada)
    assert found is not None
    assert found.replay == asked


def change_figures(replay: Replay, name: str, **values: Any) -> None:
    """Let each call have had these figures under a policy."""
    for row in replay.calls.all():
        row.figures[name] |= values
        row.save()
    # What was read of it is kept: it is as one that came of another run.
    Replay.objects.filter(pk=replay.pk).update(finished_at=timezone.now())


def test_one_that_lost_something_is_not_recommended(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    asked = work(ask(admin, policies=[narrow.pk]))
    whole: dict[str, Any] = {
        "valid": True,
        "over_budget": False,
        **{key: [2, 2] for key in ("pins", "orders", "notes")},
    }
    for name, value, fault in (
        ("valid", False, "3 calls were not valid"),
        ("over_budget", True, "3 calls missed the budget"),
        ("pins", [1, 2], "3 standing orders were lost"),
        ("orders", [1, 2], "3 open orders were lost"),
        ("notes", [1, 2], "3 notes were lost"),
    ):
        change_figures(asked, "narrow", **{**whole, name: value})
        found = recommend.recommend_for_mysis(ada)
        assert found is not None
        assert found.best == found.own
        assert [one.faults for one in found.refused] == [(fault,)]
    text = admin.get(f"/myses/{ada.pk}/context/").content.decode()
    assert "Leave it as it is" in text
    assert "3 notes were lost" in text


def read_hidden(text: str) -> dict[str, str]:
    """The hidden fields of the form that uses a policy."""
    form = text.partition('class="advice-acts"')[2].partition("</form>")[0]
    found = re.findall(r'type="hidden" name="([a-z]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


def test_one_tried_without_a_budget_is_stored_by_its_link_and_used(
    admin: Client, ada: Mysis
):
    # The default's options are another thing than those that were tried.
    ContextPolicy.objects.create(
        name="usual",
        is_default=True,
        budget_tokens=60_000,
        options={"state_block": False},
    )
    work(ask(admin, whom=f"mysis:{ada.pk}", strategy="window", options='{"window": 4}'))
    place = f"/myses/{ada.pk}/context/"
    choice = admin.get(place).context["choice"]
    assert choice.policy is None
    form = admin.get(choice.store_address).context["adminform"].form
    assert form.get_initial_for_field(form.fields["options"], "options") == {
        "window": 4
    }
    sent = {each.name: each.value() for each in form}
    sent = {name: value for name, value in sent.items() if value not in (None, False)}
    answer = admin.post(choice.store_address, {**sent, "_save": "Save"})
    assert answer.status_code == 302, answer.context["errors"]
    made = ContextPolicy.objects.get(name="window")
    assert (made.options, made.budget_tokens) == ({"window": 4}, 60_000)
    hidden = read_hidden(admin.get(place).content.decode())
    assert hidden["policy"] == str(made.pk)
    admin.post(choice.address, hidden)
    ada.refresh_from_db()
    assert ada.policy == made


def test_a_policy_that_was_edited_meanwhile_is_not_used(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    work(ask(admin, policies=[narrow.pk], whom=f"mysis:{ada.pk}"))
    place = f"/myses/{ada.pk}/context/"
    hidden = read_hidden(admin.get(place).content.decode())
    ContextPolicy.objects.update(options={"window": 2})
    address = f"{place}policy/"
    assert admin.post(address, hidden, headers=HTMX).status_code == 409
    # Who names none does not mean none.
    del hidden["policy"]
    assert admin.post(address, hidden, headers=HTMX).status_code == 422
    ada.refresh_from_db()
    assert ada.policy is None


def test_it_says_over_which_calls_and_for_whom_it_counts(
    admin: Client, ada: Mysis, narrow: ContextPolicy, monkeypatch: pytest.MonkeyPatch
):
    make_mysis(name="Bob", policy=narrow)
    asked = work(ask(admin, policies=[narrow.pk]))
    text = admin.get(f"/lab/{asked.pk}/").content.decode()
    for words in ("less than these calls had", "so few say little", "for the 1 of 2"):
        assert words in text, words
    # A Mysis's own page judges its newest calls alone, whosever the replay is.
    asked = work(ask(admin, policies=[narrow.pk], whom=f"mysis:{ada.pk}"))
    monkeypatch.setattr(recommend, "CALLS", 2)
    found = recommend.recommend_for_mysis(ada)
    assert found is not None
    assert (found.replay, found.calls) == (asked, 2)
    assert (found.since, found.until) == (
        asked.calls.get(place=2).at,
        asked.calls.get(place=3).at,
    )


def test_what_it_gives_up_is_said_and_an_edited_policy_has_to_be_stored_first(
    admin: Client, ada: Mysis, narrow: ContextPolicy
):
    asked = work(ask(admin, policies=[narrow.pk]))
    change_figures(
        asked,
        "narrow",
        facts_lost=4,
        facts_with_handle=3,
        state_values=[1, 2],
        asks_summary=True,
        shared_bytes=0,
    )
    narrow.options = {"window": 9}
    narrow.save()
    text = admin.get(f"/myses/{ada.pk}/context/").content.decode()
    for words in (
        "12 results of tools",
        "a handle leads back to 9",
        "3 values of the game&#x27;s state",
        "cache can keep 0%",
        "3 more summaries",
        "store them as a policy",
    ):
        assert words in text, words
    assert "Use <bdi>" not in text


def test_a_recommendation_over_rest(admin: Client, ada: Mysis, narrow: ContextPolicy):
    for address in ("recommendation", "myses/Ada/recommendation"):
        found = admin.get(f"/api/v1/{address}").json()
        assert (found["replay"], found["best"], found["candidates"]) == (None, None, [])
        assert (found["since"], found["until"]) == (None, None)
    asked = work(ask(admin, policies=[narrow.pk]))
    for address in ("recommendation", "myses/Ada/recommendation"):
        found = admin.get(f"/api/v1/{address}").json()
        told = found["replay"], found["best"], found["calls"], found["unit"]
        assert told == (asked.pk, "narrow", 3, "tokens")
        span = asked.calls.aggregate(first=Min("at"), last=Max("at"))
        shown = [parse_datetime(found[name]) for name in ("since", "until")]
        # JSON has milliseconds.
        for moment, stored in zip(shown, span.values(), strict=True):
            assert abs(moment - stored) < timedelta(milliseconds=1)
        own, best = found["candidates"]
        assert (own["name"], own["policy"]) == ("own", None)
        assert (best["policy"], best["faults"]) == ("narrow", [])
        assert found["saved"] == pytest.approx(1 - best["price"] / own["price"])
