"""Our own tools, offered to every Mysis beside the game's, answered here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db import connection

from agents.models import Mysis
from agents.tools import messaging, recollection, searches, swarm
from agents.tools.crossing import cross
from agents.tools.offer import FOR_MYSES, SENDING
from agents.tools.reach import Answer, LocalRefusedError, Reach, secret_tools
from agents.tools.request import CallNext, Outcome, Request, Tool, refusal

SILENT: Mapping[str, Tool] = {
    name: tool for name, tool in FOR_MYSES.items() if name not in SENDING
}
ANSWERS: Mapping[str, Callable[[Mapping[str, Any], Reach], Answer]] = {
    "zoea_search_messages": searches.messages,
    "zoea_search_reasoning": searches.reasoning,
    "zoea_search_broadcasts": searches.broadcasts,
    "zoea_recall": recollection.recall,
    "zoea_swarm_status": swarm.status,
    "zoea_list_myses": swarm.listing,
    "zoea_send_message": messaging.send,
    "zoea_broadcast": messaging.broadcast,
}


async def local(request: Request, call_next: CallNext) -> Outcome:
    """Answer our own tools here; pass everything else on."""
    tool = request.tool
    if tool is None or not tool.local:
        return await call_next(request)
    try:
        answer = await cross(_answer, request)
    except LocalRefusedError as error:
        return refusal("invalid_arguments", str(error))
    return Outcome(answer.blocks)


def offered(mysis_id: int) -> Mapping[str, Tool]:
    """Our tools for one Mysis: those that send only where it may."""
    return FOR_MYSES if _may_send(mysis_id) else SILENT


def _may_send(mysis_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT messaging FROM agents_mysis WHERE id = %s", [mysis_id])
        row = cursor.fetchone()
    return bool(row and row[0])


def _answer(request: Request) -> Answer:
    mysis_id = request.seat.mysis_id
    name = Mysis.objects.values_list("name", flat=True).get(pk=mysis_id)
    tools = request.seat.tools.items()
    policies = ((name, tool.spec.policy) for name, tool in tools)
    reach = Reach(f"mysis:{name}", mysis_id, secret_tools(policies))
    return ANSWERS[request.name](request.arguments, reach)
