"""Save, rename and delete the views of the fleet that a user keeps, and choose one."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from agents.actions.base import ActionError, name_person, validate_row
from agents.models import SavedView
from memory import audit

MOST_VIEWS = 20


@transaction.atomic
def save_view(*, user: User, name: str, query: str) -> SavedView:
    """Keep the parameters of an address under a name.

    Raises ActionError: 422 for a name that is empty, too long or taken, 409 where the user has as many views as can be kept.
    """
    # Locked, so that two at once are not one too many.
    User.objects.select_for_update().get(pk=user.pk)
    if SavedView.objects.filter(user=user).count() >= MOST_VIEWS:
        raise ActionError(
            f"name: you keep {MOST_VIEWS} views, which is the most: delete one first.",
            code="too_many",
        )
    view = SavedView(user=user, name=_clean_name(name), query=query)
    validate_row(view)
    view.save()
    told = {"query": query}
    audit.record(
        "view.create", _name(user, view.name), by=name_person(user), after=told
    )
    return view


@transaction.atomic
def rename_view(*, view: SavedView, name: str) -> SavedView:
    """Give a view another name; raises ActionError 422 as `save_view`, 404 if deleted."""
    # Locked, so that two at once do not take one name.
    User.objects.select_for_update().get(pk=view.user_id)
    present = SavedView.objects.filter(pk=view.pk).first()
    if present is None:
        raise ActionError(
            f"View {view.name} was deleted meanwhile.", code="not_found", status=404
        )
    old, present.name = present.name, _clean_name(name)
    validate_row(present)
    present.save(update_fields=["name"])
    user = present.user
    audit.record(
        "view.rename",
        _name(user, old),
        by=name_person(user),
        before={"name": old},
        after={"name": present.name},
    )
    return present


@transaction.atomic
def choose_default_view(*, user: User, view: SavedView | None) -> None:
    """Let the Fleet page open with this view of the user; with None as it is."""
    User.objects.select_for_update().get(pk=user.pk)
    mine = SavedView.objects.filter(user=user)
    old = mine.filter(is_default=True).values_list("name", flat=True).first()
    mine.filter(is_default=True).update(is_default=False)
    if view is not None:
        mine.filter(pk=view.pk).update(is_default=True)
    audit.record(
        "view.choose",
        f"user:{user.get_username()}",
        by=name_person(user),
        before={"view": old},
        after={"view": view.name if view else None},
    )


@transaction.atomic
def delete_view(*, view: SavedView) -> None:
    told = {"query": view.query}
    user = view.user
    audit.record(
        "view.delete", _name(user, view.name), by=name_person(user), before=told
    )
    view.delete()


def _name(user: User, name: str) -> str:
    return f"view:{user.get_username()}/{name}"


def _clean_name(name: str) -> str:
    return " ".join(name.replace("\x00", "").split())
