"""Writes under an ``Idempotency-Key`` are done once.

The key is claimed in a transaction of its own, so that a second request under it is
seen at once. The write and its recorded answer then commit together: a crash leaves
either both or neither, and the claim of a process that died may be taken over after a
while; should that process live after all, its write finds the claim gone and is undone.

A game command is the exception. The game knows nothing of our transactions, so a crash
can leave a command that was run and an answer that was not recorded. Its claim is never
taken over: as long as it may run a repetition is told to wait, and after that that the
outcome is unknown. It is not run a second time under the same key.

Only what was done is remembered. A refusal changed nothing, so the same request may be
sent again under its key once the reason is gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from agents.manual_command import LONGEST
from memory.lookup import Problem
from zoea.auth import commits_apart, is_pure
from zoea.models import IdempotencyRecord
from zoea.rate_limits import Limiter

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY = 200
#: A longer answer is not kept; a repetition is told where to read it instead.
MAX_BODY = 1024 * 1024
KEPT = timedelta(hours=24)
ABANDONED = timedelta(minutes=5)
#: A command may run so long, sign-in and hand-over included.
RUNNING = LONGEST + timedelta(minutes=1)
SWEPT_AT_ONCE = 1000
NOT_DONE = 503

Answer = Callable[[HttpRequest], HttpResponseBase]
# Once in a minute in each process.
_sweeps = Limiter(rate=1 / 60, burst=1)


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants which key for which request."""

    actor: str
    key: str
    digest: str
    apart: bool = False


def answer_once(
    request: HttpRequest, actor: str, body: bytes, answer: Answer
) -> HttpResponseBase:
    """Answer a write; the second time under one key, from the record.

    The same key with another request is 422, while the first still runs 409. What
    was refused (4xx) or failed (5xx) is not recorded, so the client may try again.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return answer(request)
    key, path = _checked(key), request.path_info
    if is_pure(request.method or "", path):
        return answer(request)
    apart = commits_apart(path)
    record = claim(Claim(actor, key, _digest(request, body), apart))
    if record.status is not None:
        return _replay(record)
    go = _answer_apart if apart else _answer_together
    return go(request, record, answer)


def claim(wish: Claim) -> IdempotencyRecord:
    """Take the key, or return the finished record of who had it before."""
    now = timezone.now()
    if not _sweeps.take(""):
        sweep(now)
    mine = IdempotencyRecord.objects.filter(actor=wish.actor, key=wish.key)
    mine.filter(created_at__lt=now - KEPT).delete()
    mine.filter(status=None, apart=False, created_at__lt=now - ABANDONED).delete()
    try:
        with transaction.atomic():
            return IdempotencyRecord.objects.create(
                actor=wish.actor,
                key=wish.key,
                request_digest=wish.digest,
                apart=wish.apart,
            )
    except IntegrityError:
        return _finished(mine.first(), wish.digest, now)


def past(now: datetime) -> QuerySet[IdempotencyRecord]:
    """The answers that are past their time."""
    return IdempotencyRecord.objects.filter(created_at__lt=now - KEPT)


def sweep(now: datetime) -> None:
    """Let some of the answers go that are past their time."""
    oldest = past(now).order_by("created_at").values_list("pk", flat=True)
    ids = list(oldest[:SWEPT_AT_ONCE])
    IdempotencyRecord.objects.filter(pk__in=ids).delete()


def _finished(
    found: IdempotencyRecord | None, digest: str, now: datetime
) -> IdempotencyRecord:
    if found is not None and found.request_digest != digest:
        raise Problem(
            422,
            "idempotency_key_reused",
            f"{HEADER}: this key was used for another request; take a new one.",
        )
    if found is not None and found.status is None and found.created_at < now - RUNNING:
        raise unknown()
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
    """In one transaction with the record of the answer."""
    try:
        with transaction.atomic():
            response = answer(request)
            if response.status_code < 400:
                _keep(record, response)
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
    """Of a write that commits by itself, step by step."""
    try:
        response = answer(request)
    except BaseException:
        _keep_problem(record, unknown())
        raise
    if response.status_code < 400:
        _keep(record, response)
    elif _is_not_done(response):
        record.delete()
    else:
        _keep_problem(record, unknown())
    return response


def _is_not_done(response: HttpResponseBase) -> bool:
    """Whether a write was refused before it did anything."""
    if response.status_code == NOT_DONE:
        # The database was too busy, at a step that nobody knows.
        return not getattr(response, "broke_off", False)
    return response.status_code < 500


def _keep(record: IdempotencyRecord, response: HttpResponseBase) -> None:
    body = response.content if isinstance(response, HttpResponse) else None
    if body is None or len(body) > MAX_BODY:
        _keep_problem(record, too_long())
        return
    record.status, record.body = response.status_code, body.decode()
    # Fails where another took the claim over meanwhile: then this is undone.
    record.save(update_fields=["status", "body"])


def _keep_problem(record: IdempotencyRecord, problem: Problem) -> None:
    record.status = problem.status
    record.body = json.dumps({"detail": problem.detail, "code": problem.code})
    record.save(update_fields=["status", "body"])


def unknown() -> Problem:
    """The answer where nobody can say whether a command was run."""
    return Problem(
        409,
        "idempotency_outcome_unknown",
        f"{HEADER}: the first request under this key broke off, and the command may "
        "have been run. See in the memories of the Mysis what came of it; to run it "
        "again, take a new key.",
    )


def too_long() -> Problem:
    """The answer in the place of one that was not kept."""
    return Problem(
        409,
        "idempotency_answer_not_kept",
        f"{HEADER}: this was done, but its answer was too long to be kept: read what "
        "came of it by GET.",
    )


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
