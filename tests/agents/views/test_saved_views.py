"""The Fleet page as a user wants it: saved views, columns, groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils.http import urlencode

from agents.actions.saved_views import MOST_VIEWS
from agents.dashboard.fleet import OPTIONAL, FleetView
from agents.models import Mysis, SavedView
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def save(client: Client, name: str, query: str = "state=idle&sort=cost") -> Any:
    values = {"name": name, "query": query}
    return client.post("/views/save/", values, headers=HTMX)


def change(client: Client, view: SavedView, act: str, **values: str) -> Any:
    sent = {"act": act, **values}
    return client.post(f"/views/{view.pk}/change/", sent, headers=HTMX)


# --- Saved views


def test_a_view_is_saved_chosen_renamed_and_deleted(sign_in: Callable[..., Client]):
    client = sign_in("operator")
    text = save(client, " My  idlers ").content.decode()
    assert "View My idlers is saved." in text
    view = SavedView.objects.get()
    found = FleetView.read(QueryDict(view.query))
    assert (found.state, found.sort, found.show) == ("idle", "cost", 60)
    link = re.search(r'class="view-name" href="([^"]+)"', text)
    assert link
    page = client.get(link[1].replace("&amp;", "&")).content.decode()
    assert re.search(r'value="cost" selected', page)
    text = change(client, view, "rename", name="Idlers").content.decode()
    assert "The view is named Idlers." in text
    assert 'hx-confirm="Delete the view Idlers?"' in text
    assert "is deleted" in change(client, view, "delete").content.decode()
    assert not SavedView.objects.exists()


def test_fleet_opens_with_the_default_and_shows_all_when_asked(
    sign_in: Callable[..., Client],
):
    client = sign_in("operator")
    save(client, "idle")
    save(client, "all", "")
    idle, everybody = SavedView.objects.order_by("pk")
    assert client.get("/").status_code == 200
    change(client, idle, "default")
    answer = client.get("/")
    assert answer.status_code == 302
    assert answer["Location"] == f"/?{idle.query}"
    assert client.get(answer["Location"]).status_code == 200
    assert client.get("/?state=").status_code == 200
    # An address that somebody gave shows what it says.
    assert client.get("/?sort=name").status_code == 200
    change(client, everybody, "default")
    assert list(SavedView.objects.filter(is_default=True)) == [everybody]
    change(client, everybody, "no-default")
    assert client.get("/").status_code == 200


def test_views_are_nobody_elses(sign_in: Callable[..., Client]):
    admin, operator = sign_in("admin"), sign_in("operator")
    save(admin, "mine")
    view = SavedView.objects.get()
    change(admin, view, "default")
    assert "mine" not in operator.get("/views/", headers=HTMX).content.decode()
    assert operator.get("/").status_code == 200
    for act in ("rename", "default", "delete"):
        assert change(operator, view, act, name="theirs").status_code == 404
    assert save(operator, "mine").status_code == 200
    view.refresh_from_db()
    assert (view.name, view.is_default) == ("mine", True)


def test_a_viewer_keeps_views_that_are_nobody_elses(sign_in: Callable[..., Client]):
    viewer, operator = sign_in("viewer"), sign_in("operator")
    page = viewer.get("/?state=idle").content.decode()
    assert '<details class="menu" id="views-menu">' in page
    assert save(viewer, "mine").status_code == 200
    view = SavedView.objects.get()
    assert "mine" in viewer.get("/views/", headers=HTMX).content.decode()
    assert "mine" not in operator.get("/views/", headers=HTMX).content.decode()
    assert change(operator, view, "delete").status_code == 404
    change(viewer, view, "default")
    assert viewer.get("/")["Location"] == f"/?{view.query}"
    assert operator.get("/").status_code == 200
    # All else that changes something is still not for viewers.
    assert viewer.post("/send/", {"text": "Go."}, headers=HTMX).status_code == 403
    assert change(viewer, view, "delete").status_code == 200
    assert not SavedView.objects.exists()


def test_views_need_a_sign_in(client: Client):
    for path in ("/views/", "/views/save/", "/views/1/change/"):
        answer = client.post(path) if path != "/views/" else client.get(path)
        assert answer.status_code == 302
        assert "/login/" in answer["Location"] or "sign-in" in answer["Location"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "cannot be blank"),
        ("x" * 61, "at most 60"),
        ("Kept", "You have a view of this name"),
        ("KEPT", "You have a view of this name"),
        ("a\u202eb", "invisible"),
    ],
)
def test_a_bad_name_is_refused_and_stays_typed(admin: Client, name: str, words: str):
    save(admin, "Kept")
    answer = save(admin, name)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert words in text
    assert f'value="{name}"' in text
    view = SavedView.objects.get()
    other = SavedView.objects.create(user=view.user, name="other")
    assert change(admin, other, "rename", name=name).status_code == 422
    assert change(admin, view, "explode").status_code == 422
    assert set(SavedView.objects.values_list("name", flat=True)) == {"Kept", "other"}


def test_there_are_only_so_many_and_what_is_kept_is_bounded(admin: Client):
    save(admin, "long", f"q={'x' * 5000}&columns=place&group={'g' * 900}\x00")
    assert len(SavedView.objects.get().query) < 1_000
    # The longest that Fleet can show is kept whole.
    words = "\U0001f680" * 100
    query = urlencode({"q": words, "group": words, "columns": "who,place"})
    assert save(admin, "rockets", query).status_code == 200
    kept = FleetView.read(QueryDict(SavedView.objects.get(name="rockets").query))
    assert (kept.query, kept.group, kept.columns) == (words, words, ["place"])
    for number in range(MOST_VIEWS - 2):
        assert save(admin, f"view {number}").status_code == 200
    answer = save(admin, "one more")
    assert answer.status_code == 409
    assert "which is the most" in answer.content.decode()
    assert SavedView.objects.count() == MOST_VIEWS


# --- Columns


def test_columns_are_chosen_by_the_address(admin: Client):
    make_mysis(name="Ada")
    every = [one.name for one in OPTIONAL]
    assert FleetView.read({}).columns == every
    assert "columns" not in FleetView.read({"columns": ",".join(every)}).write_query()
    form = QueryDict("columns=who&columns=place&columns=hour&columns=nonsense")
    view = FleetView.read(form)
    assert view.columns == ["place", "hour"]
    assert FleetView.read(QueryDict(view.write_query())) == view
    page = admin.get("/?columns=who,place").content.decode()
    assert 'data-hide="purse said context hour"' in page
    # Compact rows show its icon alone.
    assert 'class="state state-idle" title="idle"' in page
    # A form's parameters come out as an address to share.
    headers = {**HTMX, "HX-Target": "fleet-view"}
    answer = admin.get("/?state=&q=&columns=who&columns=place", headers=headers)
    assert answer["HX-Push-Url"].endswith("columns=who%2Cplace&show=60")


# --- Groups


def test_groups_are_chips_and_a_list_where_there_are_many(admin: Client):
    for number in range(3):
        make_mysis(name=f"M{number}", group="miners" if number else "odd & <b>")
    page = admin.get("/?group=miners").content.decode()
    chips = re.findall(r'<input type="radio" name="group" value="([^"]*)"', page)
    assert chips == ["", "miners", "odd &amp; &lt;b&gt;"]
    assert 'data-group="miners"' in page
    assert "M0" not in page.partition('id="fleet-rows"')[2].partition("</ol>")[0]
    for number in range(12):
        make_mysis(group=f"group {number}")
    page = admin.get("/").content.decode()
    assert '<select name="group">' in page
    assert 'type="radio" name="group"' not in page


def test_the_selected_are_put_into_a_group_and_taken_out(
    sign_in: Callable[..., Client], admin: Client
):
    ada, brahe, cassini = (make_mysis(name=name) for name in ("Ada", "Brahe", "Cass"))

    def act(what: str, group: str, *myses: Mysis, client: Client = admin) -> Any:
        sent = {"act": what, "to_group": group, "mysis": [m.pk for m in myses]}
        return client.post("/bulk/", sent, headers=HTMX)

    answer = act("group", " miners ", ada, brahe)
    assert "Put into group miners: 2 Myses." in answer.content.decode()
    assert "groups-changed" in answer["HX-Trigger"]
    act("group", "haulers", cassini)
    groups = dict(Mysis.objects.values_list("name", "group"))
    assert groups == {"Ada": "miners", "Brahe": "miners", "Cass": "haulers"}
    answer = act("ungroup", "miners", ada, cassini)
    assert "Taken out of their group: 1 Mysis." in answer.content.decode()
    assert act("ungroup", "miners", cassini).status_code == 422
    assert act("ungroup", "", brahe, cassini).status_code == 200
    assert not Mysis.objects.exclude(group="").exists()
    assert act("group", "", ada).status_code == 422
    assert act("group", "g" * 101, ada).status_code == 409
    operator = sign_in("operator")
    assert act("group", "x", ada, client=operator).status_code == 403
    assert not Mysis.objects.exclude(group="").exists()
