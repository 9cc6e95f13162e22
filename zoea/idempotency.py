"""Writes that can be repeated safely under an ``Idempotency-Key``.

The key is claimed first, in a transaction of its own, so that a second request
under it is seen at once. The write and its recorded answer then commit
together: a crash leaves either both or neither, and the claim of a process
that died may be taken over after a while.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from memory.problems import Problem
from zoea.models import IdempotencyRecord

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY = 200
KEPT = timedelta(hours=24)
ABANDONED = timedelta(minutes=5)
PRUNE_EVERY = 200

Answer = Callable[[HttpRequest], HttpResponseBase]


def answer_once(
    request: HttpRequest, actor: str, body: bytes, answer: Answer
) -> HttpResponseBase:
    """Answer a write; the second time under one key, from the record.

    The same key with another request is 422, while the first still runs 409.
    A failed server (5xx) is not recorded, so the client may try again.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return answer(request)
    record = claim(actor, _checked(key), _digest(request, body))
    if record.status is not None:
        return _replay(record)
    try:
        response = _answer_and_record(request, record, answer)
    except BaseException:
        record.delete()
        raise
    if response.status_code >= 500:
        record.delete()
    return response


def claim(actor: str, key: str, digest: str) -> IdempotencyRecord:
    """Take the key, or return the finished record of who had it before."""
    now = timezone.now()
    mine = IdempotencyRecord.objects.filter(actor=actor, key=key)
    mine.filter(created_at__lt=now - KEPT).delete()
    mine.filter(status=None, created_at__lt=now - ABANDONED).delete()
    if secrets.randbelow(PRUNE_EVERY) == 0:
        IdempotencyRecord.objects.filter(created_at__lt=now - KEPT).delete()
    try:
        with transaction.atomic():
            return IdempotencyRecord.objects.create(
                actor=actor, key=key, request_digest=digest
            )
    except IntegrityError:
        return _finished(mine.first(), digest)


def _finished(found: IdempotencyRecord | None, digest: str) -> IdempotencyRecord:
    if found is not None and found.request_digest != digest:
        raise Problem(
            422,
            "idempotency_key_reused",
            f"{HEADER}: this key was used for another request; take a new one.",
        )
    if found is None or found.status is None:
        raise Problem(
            409,
            "idempotency_in_progress",
            f"{HEADER}: the first request under this key still runs; ask again.",
            headers={"Retry-After": "1"},
        )
    return found


def _answer_and_record(
    request: HttpRequest, record: IdempotencyRecord, answer: Answer
) -> HttpResponseBase:
    with transaction.atomic():
        response = answer(request)
        if response.status_code >= 500 or not isinstance(response, HttpResponse):
            transaction.set_rollback(response.status_code >= 500)
            return response
        record.status = response.status_code
        record.body = response.content.decode()
        record.save(update_fields=["status", "body"])
    return response


def _replay(record: IdempotencyRecord) -> HttpResponse:
    response = HttpResponse(record.body, status=record.status)
    if record.body:
        response["Content-Type"] = "application/json; charset=utf-8"
    response[REPLAYED] = "true"
    return response


def _checked(key: str) -> str:
    if 0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable():
        return key
    raise Problem(
        422, "invalid", f"{HEADER}: use 1 to {MAX_KEY} printable ASCII characters."
    )


def _digest(request: HttpRequest, body: bytes) -> str:
    head = f"{request.method} {request.get_full_path()}\n"
    return hashlib.sha256(head.encode() + body).hexdigest()
