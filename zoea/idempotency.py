"""Writes under an ``Idempotency-Key`` are done once.

The key is claimed in a transaction of its own, so that a second request sees it at
once. The write and its recorded answer then commit together: a crash leaves both or
neither. The claim of a process that died is given to the next request after a while;
should that process live after all, its write finds the claim gone and is undone.

A game command is the exception: the game takes no part in our transactions, so a crash
can leave a command that ran without a recorded answer. Its claim is never given away. A
repetition is told to wait, and later that the outcome is unknown.

Only success is recorded. A refusal changed nothing, so the same request may be sent
again under its key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from agents.statements import LONGEST_COMMAND
from memory.problems import Problem
from zoea.auth import commits_apart, is_pure
from zoea.models import IdempotencyRecord
from zoea.rate_limits import Limiter

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY = 200
# A longer answer is not kept; a repetition is told where to read it instead.
MAX_BODY = 1024 * 1024
LIFETIME = timedelta(hours=24)
ABANDONED = timedelta(minutes=5)
# The longest that a command may run, sign-in and hand-over included.
RUNNING = LONGEST_COMMAND + timedelta(minutes=1)
DELETED_AT_ONCE = 1000
NOT_DONE = 503

OUTCOME_UNKNOWN = (
    "idempotency_outcome_unknown",
    f"{HEADER}: the first request under this key broke off, and the command may have "
    "been run. See in the memories of the Mysis what came of it; to run it again, take "
    "a new key.",
)
ANSWER_NOT_KEPT = (
    "idempotency_answer_not_kept",
    f"{HEADER}: this was done, but its answer was too long to be kept: read what came "
    "of it by GET.",
)

Answer = Callable[[HttpRequest], HttpResponseBase]
# Once in a minute in each process.
_sweeps = Limiter(rate=1 / 60, burst=1)


def answer_once(
    request: HttpRequest, actor: str, body: bytes, answer: Answer
) -> HttpResponseBase:
    """Answer a write; a repetition under the same key is answered from the record.

    Raises a 422 Problem for the same key with another request, a 409 while the first
    one runs. What was refused (4xx) or failed (5xx) may be tried again.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return answer(request)
    key, path = _check_key(key), request.path_info
    if is_pure(request.method or "", path):
        return answer(request)
    head = f"{request.method} {request.get_full_path()}\n"
    digest = hashlib.sha256(head.encode() + body).hexdigest()
    record = _claim_key(
        IdempotencyRecord(
            actor=actor, key=key, request_digest=digest, apart=commits_apart(path)
        )
    )
    if record.status is not None:
        return _replay(record)
    if record.apart:
        return _answer_apart(request, record, answer)
    return _answer_together(request, record, answer)


def _claim_key(wanted: IdempotencyRecord) -> IdempotencyRecord:
    """Store the record, or return the finished one of the first request."""
    now = timezone.now()
    if not _sweeps.take(""):
        expired = find_expired(now).order_by("created_at").values_list("pk", flat=True)
        ids = list(expired[:DELETED_AT_ONCE])
        IdempotencyRecord.objects.filter(pk__in=ids).delete()
    records = IdempotencyRecord.objects.filter(actor=wanted.actor, key=wanted.key)
    records.filter(created_at__lt=now - LIFETIME).delete()
    records.filter(status=None, apart=False, created_at__lt=now - ABANDONED).delete()
    try:
        with transaction.atomic():
            wanted.save(force_insert=True)
    except IntegrityError:
        return _check_finished(records.first(), wanted.request_digest, now)
    return wanted


def find_expired(now: datetime) -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(created_at__lt=now - LIFETIME)


def _check_finished(
    found: IdempotencyRecord | None, digest: str, now: datetime
) -> IdempotencyRecord:
    if found is not None and found.request_digest != digest:
        raise Problem(
            422,
            "idempotency_key_reused",
            f"{HEADER}: this key was used for another request; take a new one.",
        )
    if found is not None and found.status is None and found.created_at < now - RUNNING:
        raise Problem(409, *OUTCOME_UNKNOWN)
    if found is None or found.status is None:
        raise Problem(
            409,
            "idempotency_in_progress",
            f"{HEADER}: the first request under this key still runs; ask again.",
            headers={"Retry-After": "1"},
        )
    return found


def _answer_together(
    request: HttpRequest, record: IdempotencyRecord, answer: Answer
) -> HttpResponseBase:
    """Do the write and record its answer in one transaction."""
    try:
        with transaction.atomic():
            response = answer(request)
            if response.status_code < 400:
                _record_answer(request, record, response)
            else:
                transaction.set_rollback(True)
    except BaseException:
        record.delete()
        raise
    if response.status_code >= 400:
        record.delete()
    return response


def _answer_apart(
    request: HttpRequest, record: IdempotencyRecord, answer: Answer
) -> HttpResponseBase:
    """Do a write that commits by itself step by step, then record its answer."""
    try:
        response = answer(request)
    except BaseException:
        _record_conflict(record, *OUTCOME_UNKNOWN)
        raise
    if response.status_code < 400:
        _record_answer(request, record, response)
    elif _is_not_done(response):
        record.delete()
    else:
        _record_conflict(record, *OUTCOME_UNKNOWN)
    return response


def _is_not_done(response: HttpResponseBase) -> bool:
    """Whether a write was refused before it did anything."""
    if response.status_code == NOT_DONE:
        # ``broke_off``: the database was too busy at an unknown step.
        return not getattr(response, "broke_off", False)
    return response.status_code < 500


def _record_answer(
    request: HttpRequest, record: IdempotencyRecord, response: HttpResponseBase
) -> None:
    # One that was made just now is told once, and kept nowhere in clear.
    has_secret = bool(getattr(request, "made_secret", ""))
    body = response.content if isinstance(response, HttpResponse) else None
    if body is None or len(body) > MAX_BODY or has_secret:
        _record_conflict(record, *ANSWER_NOT_KEPT)
        return
    record.status, record.body = response.status_code, body.decode()
    # Fails where another request has the claim by now: then this write is undone.
    record.save(update_fields=["status", "body"])


def _record_conflict(record: IdempotencyRecord, code: str, detail: str) -> None:
    record.status = 409
    record.body = json.dumps({"detail": detail, "code": code})
    record.save(update_fields=["status", "body"])


def _replay(record: IdempotencyRecord) -> HttpResponse:
    response = HttpResponse(record.body, status=record.status)
    if record.body:
        response["Content-Type"] = "application/json; charset=utf-8"
    response[REPLAYED] = "true"
    return response


def _check_key(key: str) -> str:
    if 0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable():
        return key
    raise Problem(
        422, "invalid", f"{HEADER}: use 1 to {MAX_KEY} printable ASCII characters."
    )
