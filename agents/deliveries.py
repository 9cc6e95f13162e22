"""How far a message to a Mysis has come: queued, shown in a call, done.

It is written where it happens: with the call that takes a message in, and with the
end of the turn that answered it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Literal

from django.db.models import QuerySet
from django.utils import timezone

from agents.models import Delivery, Mysis
from memory.context.types import INTENT_ORIGINS, Source
from memory.models import Memory, Role

State = Literal["queued", "shown", "left_out", "done"]


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """Where a message stands.

    ``turn`` is the id of the turn, for as long as it is kept, ``number`` its number,
    ``call`` that of its first call which had the message.
    """

    state: State
    turn: int | None = None
    number: int | None = None
    call: int | None = None
    shown_at: datetime | None = None
    done_at: datetime | None = None


def select_orders(mysis: Mysis) -> QuerySet[Memory]:
    """What humans and broadcasts told a Mysis; by the index of intents."""
    return Memory.objects.filter(
        mysis=mysis, origin__in=["human", "broadcast"], role=Role.USER
    )


def read_delivery_statuses(
    mysis: Mysis, ids: Iterable[int]
) -> dict[int, DeliveryStatus]:
    """Where these messages of a Mysis stand, in one query."""
    wanted = list(ids)
    found = Delivery.objects.in_bulk(wanted)
    return {number: _state(number, found.get(number), mysis) for number in wanted}


def _state(number: int, row: Delivery | None, mysis: Mysis) -> DeliveryStatus:
    if row is None:
        # Calls of a version that kept no deliveries had it long ago.
        return DeliveryStatus("queued" if number > mysis.heard else "done")
    state: State = "done" if row.done_at else "shown"
    return DeliveryStatus(
        state if row.shown else "left_out",
        row.turn_id,
        row.turn_number,
        row.call_number,
        row.shown_at,
        row.done_at,
    )


def find_unheard(mysis: Mysis, considered: Iterable[tuple[int, str]]) -> list[int]:
    """Of (id, origin) that a call considers, the messages that no call had before."""
    return [
        number
        for number, origin in considered
        if number > mysis.heard and origin in INTENT_ORIGINS
    ]


def record_shown(
    mysis: Mysis,
    new: Sequence[int],
    sources: Sequence[Source],
    *,
    turn: tuple[int, int],
    call: int,
) -> None:
    """Store that a call has messages that no call had before; the row is locked.

    ``turn`` is the id and the number of the turn, ``call`` the number of the call.
    """
    rows = (source if isinstance(source, list) else [source] for source in sources)
    sent = set(chain.from_iterable(rows))
    Delivery.objects.bulk_create(
        [
            Delivery(
                memory_id=number,
                mysis=mysis,
                turn_id=turn[0],
                turn_number=turn[1],
                call_number=call,
                shown=number in sent,
            )
            for number in new
        ],
        ignore_conflicts=True,
    )
    mysis.heard = max(new)
    mysis.save(update_fields=["heard"])


def finish_shown(ids: Sequence[int]) -> None:
    """Mark messages that a Mysis was shown as done: its turn ended by itself."""
    if ids:
        Delivery.objects.filter(pk__in=ids).update(done_at=timezone.now())
