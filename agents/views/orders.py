"""The pages of orders, and what an operator says became of one."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from agents.actions.base import name_operator
from agents.actions.orders import LONGEST_NOTE, change_order
from agents.dashboard import orders
from agents.dashboard.live import fragments
from agents.models import Mysis, Order
from agents.order_status import STATES
from agents.templatetags.zoea import order_state
from agents.views.access import PageRequest, notify_success, operator_required
from memory.handles import parse_id


@require_safe
def orders_page(request: PageRequest) -> HttpResponse:
    """All orders, newest first; ``state`` and ``before`` narrow them."""
    state = request.GET.get("state", "")
    state = state if state in STATES else ""
    before = parse_id(request.GET.get("before", ""))
    lines = orders.load_lines(state, before, orders.PAGE + 1)
    more = len(lines) > orders.PAGE
    lines = lines[: orders.PAGE]
    context = {
        "parts": {"orders-list": fragments.draw_orders_list(lines, state)},
        "state": state,
        "states": [(one, order_state(one)) for one in ["open", *STATES[:-1]]],
        "before": before,
        "next": lines[-1].order.id if more else None,
        "now": timezone.now(),
    }
    return render(request, "agents/orders.html", context)


@require_safe
def order_page(request: PageRequest, number: int) -> HttpResponse:
    """One order: what everybody who got it made of it."""
    line, groups = _load(number)
    part = fragments.draw_order(line, groups)
    context = {
        "line": line,
        "parts": {part.id: part},
        "longest_note": LONGEST_NOTE,
        "now": timezone.now(),
    }
    return render(request, "agents/order.html", context)


@require_safe
def order_names(request: PageRequest, number: int) -> HttpResponse:
    """Who got an order, by what became of it: the inside of its line."""
    line, groups = _load(number)
    context = {"line": line, "groups": groups}
    return render(request, "agents/orders/names.html", context)


def _load(number: int) -> tuple[orders.OrderLine, list[orders.StateGroup]]:
    found = orders.load_order(parse_id(str(number)) or 0)
    if found is None:
        raise Http404
    return found


@require_POST
@operator_required
def change(request: PageRequest, number: int) -> HttpResponse:
    """Say what became of an order, for the one of ``?mysis=`` or for all; why as a note."""
    order = get_object_or_404(Order, pk=parse_id(str(number)) or 0)
    which = request.GET.get("mysis", "")
    mysis = get_object_or_404(Mysis, pk=parse_id(which) or 0) if which else None
    # The button for a note alone has no state.
    state, note = request.POST.get("state") or None, request.POST.get("note", "")
    count = change_order(
        order=order,
        by=name_operator(request),
        state=state,
        note=note.strip() or None,
        mysis=mysis,
    )
    of_whom = mysis.name if mysis else f"{count} {'Mysis' if count == 1 else 'Myses'}"
    became = f"is {order_state(state)}" if state else "has your note"
    said = f"Order {order.pk} {became} for {of_whom}."
    return notify_success(
        request, said if count else f"Order {order.pk} was so before."
    )
