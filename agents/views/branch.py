"""The page that lets a Mysis go on from an earlier message, and that of what came of it."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from agents import actions
from agents.actions.base import CHANGED, ActionError, lock_mysis, name_operator
from agents.actions.branches import Cut, explain_no_undo, plan_branch
from agents.dashboard import conversation
from agents.forms import BranchForm, add_action_error
from agents.views.access import (
    PageRequest,
    ask_first,
    find_mysis,
    is_confirmed,
    notify_success,
    operator_required,
)
from memory.models import Branch, Memory

# Messages of a stretch that its page shows.
SHOWN = 20


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def branch_page(request: PageRequest, key: str, memory_id: int) -> HttpResponse:
    """What a branch after a message takes back, and the form that does it."""
    mysis = find_mysis(key)
    asked = get_object_or_404(Memory, mysis=mysis, pk=min(memory_id, 2**63 - 1))
    cut = plan_branch(mysis, asked.pk)
    form = BranchForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                # No order comes to a locked one.
                cut = plan_branch(lock_mysis(mysis), asked.pk)
                _check_orders(cut, request.POST.get("orders"))
                made = actions.take_branch(
                    mysis=mysis,
                    asked=cut.asked,
                    by=name_operator(request),
                    **form.cleaned_data,
                )
        except ActionError as error:
            add_action_error(form, error)
            status = error.status
        else:
            return redirect(f"{mysis.get_absolute_url()}#line-{made.correction_id}")
    values = {
        "mysis": mysis,
        "tab": "conversation",
        "form": form,
        "cut": cut,
        "kept": conversation.load_newest_lines(mysis, 3, before=cut.kept + 1),
        "taken": conversation.load_lines_after(
            mysis, cut.kept, SHOWN, upto=cut.through
        ),
        "rest": cut.messages - SHOWN,
    }
    if form.errors and status == 200:
        status = 422
    return render(request, "agents/branch/form.html", values, status=status)


def _check_orders(cut: Cut, seen: str | None) -> None:
    """Raises ActionError 409 where an order came since the page was drawn; None: any."""
    if seen is not None and seen != ",".join(map(str, cut.orders)):
        raise ActionError(
            "Orders came or ended meanwhile: look at what is taken back, then go on.",
            code=CHANGED,
        )


@require_safe
def branch_made(request: PageRequest, branch_id: int) -> HttpResponse:
    """A branch: what it took back, and whether it can be undone."""
    branch = get_object_or_404(Branch.objects.select_related("mysis"), pk=branch_id)
    first = branch.first_id - 1
    values = {
        "mysis": branch.mysis,
        "tab": "conversation",
        "branch": branch,
        "taken": conversation.load_lines_after(
            branch.mysis, first, SHOWN, upto=branch.through_id
        ),
        "rest": branch.messages - SHOWN,
        "no_undo": explain_no_undo(branch),
    }
    return render(request, "agents/branch/made.html", values)


@require_POST
@operator_required
def undo_branch(request: PageRequest, branch_id: int) -> HttpResponse:
    """Let what was taken back stand again, after a question."""
    branch = get_object_or_404(Branch.objects.select_related("mysis"), pk=branch_id)
    if not is_confirmed(request):
        question = (
            f"The {branch.messages:,} messages that branch {branch.pk} took back stand "
            f"again, its correction is taken back, and {branch.mysis.name} is stopped."
        )
        back = reverse("branch", args=[branch.pk])
        return ask_first(request, question, label="Undo the branch", back=back)
    actions.undo_branch(branch=branch, by=name_operator(request))
    said = f"Branch {branch.pk} is undone; {branch.mysis.name} is stopped."
    return notify_success(request, said)
