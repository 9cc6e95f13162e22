"""The views of the fleet that a user keeps: save, choose, rename, delete, a default.

They stand in a list that is read when somebody opens it, and are nobody else's: how one
reads changes nothing of the fleet, so whoever may read may keep some.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.actions import ActionError, saved_views
from agents.dashboard.fleet import FleetView
from agents.models import SavedView
from agents.views.access import PageRequest, ask_first, is_confirmed


def find_default_view(request: HttpRequest) -> SavedView | None:
    """The view that the Fleet page opens with for this user."""
    return SavedView.objects.filter(user=_user(request), is_default=True).first()


@require_safe
def views_page(request: PageRequest) -> HttpResponse:
    """The user's views, and a form that saves the one of this address."""
    return _render(request, FleetView.read(request.GET))


@require_POST
def save_view(request: PageRequest) -> HttpResponse:
    """Keep the view that ``query`` names; the address parameters are read as Fleet does."""
    shown = FleetView.read(QueryDict(request.POST.get("query", "")))
    try:
        saved = saved_views.save_view(
            user=_user(request),
            name=request.POST.get("name", ""),
            query=shown.saved_query,
        )
    except ActionError as error:
        return _answer(request, shown, error=error)
    return _answer(request, shown, said=f"View {saved.name} is saved.")


@require_POST
def change_view(request: PageRequest, view_id: int) -> HttpResponse:
    """Rename one, delete it, or open Fleet with it; ``act`` says which."""
    user, act = _user(request), request.POST.get("act", "")
    view = SavedView.objects.filter(user=user, pk=min(view_id, 2**63 - 1)).first()
    if view is None:
        raise Http404("There is no such view of yours.")
    shown = FleetView.read(QueryDict(request.POST.get("query", "")))
    if act == "delete" and not is_confirmed(request):
        question, back = f"Delete the view {view.name}?", reverse("saved-views")
        return ask_first(request, question, label="Delete the view", back=back)
    try:
        said = _change(user, view, act, request.POST.get("name", ""))
    except ActionError as error:
        return _answer(request, shown, error=error, at=view.pk)
    return _answer(request, shown, said=said)


def _change(user: User, view: SavedView, act: str, name: str) -> str:
    """Do it, and say what was done; raises ActionError."""
    if act == "rename":
        renamed = saved_views.rename_view(view=view, name=name)
        return f"The view is named {renamed.name}."
    if act == "delete":
        saved_views.delete_view(view=view)
        return f"View {view.name} is deleted."
    if act == "default":
        saved_views.choose_default_view(user=user, view=view)
        return f"Fleet opens with {view.name} from now on."
    if act == "no-default":
        saved_views.choose_default_view(user=user, view=None)
        return "Fleet opens with everybody from now on."
    raise ActionError(
        "act: choose rename, delete, default or no-default.", code="invalid", status=422
    )


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 (every page needs one)
    return request.user


def _answer(
    request: PageRequest,
    shown: FleetView,
    *,
    said: str = "",
    error: ActionError | None = None,
    at: int = 0,
) -> HttpResponse:
    """The list as it is now, with what was done or why not; ``at`` is the view's row."""
    if said and not request.htmx:
        messages.success(request, said)
        return redirect("saved-views")
    problem = error.detail.removeprefix("name: ") if error else ""
    typed = request.POST.get("name", "") if error else ""
    told = {"said": said, "problem": problem, "typed": typed, "at": at}
    return _render(request, shown, error.status if error else 200, **told)


def _render(
    request: PageRequest, shown: FleetView, status: int = 200, **told: object
) -> HttpResponse:
    context = {
        "views": SavedView.objects.filter(user=_user(request)).order_by("name"),
        "most": saved_views.MOST_VIEWS,
        "query": shown.saved_query,
        **told,
    }
    template = "agents/fleet/views.html" if request.htmx else "agents/views.html"
    return render(request, template, context, status=status)
