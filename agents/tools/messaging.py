"""`zoea_send_message` and `zoea_broadcast`, for those who may write to the fleet.

What a Mysis writes begins with its name: a view shows the text alone, and nobody
is to take another agent's word for an order of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import actions
from agents.actions import ActionError
from agents.models import Mysis
from agents.tools.reach import Answer, LocalRefusedError, Reach, named, told


def send(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """A message to one Mysis; an idle one wakes."""
    to = named(arguments.get("mysis_id"))
    if to.pk == reach.mysis_id:
        raise LocalRefusedError(
            "Argument 'mysis_id' names yourself: use the captain's log for notes."
        )
    text = _signed(arguments["message"], _sender(reach))
    try:
        row = actions.send_message(mysis=to, text=text, by=reach.by)
    except ActionError as error:
        raise LocalRefusedError(error.detail) from error
    return told({"sent": True, "to": to.name, "memory_id": row.pk})


def broadcast(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """A message to every idle and running Mysis but the sender."""
    sender = _sender(reach)
    text = _signed(arguments["message"], sender)
    try:
        row = actions.send_broadcast(text=text, by=reach.by, sender=sender)
    except ActionError as error:
        raise LocalRefusedError(error.detail) from error
    count = actions.recipients(row)
    return told({"sent": True, "broadcast_id": row.pk, "recipients": count})


def _sender(reach: Reach) -> Mysis | None:
    if reach.mysis_id is None:
        return None
    return Mysis.objects.get(pk=reach.mysis_id)


def _signed(message: str, sender: Mysis | None) -> str:
    if sender is None or not message.strip():
        return message
    return f"[From Mysis {sender.name}] {message}"
