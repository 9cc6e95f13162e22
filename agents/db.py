"""The database in a turn: the way there from the event loop, and raw SQL of agents.

A turn runs these statements in every call, mostly while it holds its Mysis's row: the
ORM takes three to four times as long for them, or more than one round trip. The other
half of a turn's SQL stands in `memory`, with the tables that it is about, and so do the
statements of events, schedules, accounts and the rate limit in their own modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier
from typing import Any, ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
T = TypeVar("T")

# Enough for the steps of all turns of a process: each takes milliseconds.
MOST_THREADS = 8
_threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="database")

_MYSIS_COLUMNS = """
SELECT mysis.*, account.username AS account_name, policy.name AS policy_name,
  policy.strategy AS policy_strategy, policy.options AS policy_options,
  policy.budget_tokens AS policy_tokens, policy.budget_reserve AS policy_reserve
"""
_MYSIS = """
FROM agents_mysis AS mysis
LEFT JOIN agents_account AS account ON account.id = mysis.account_id
LEFT JOIN memory_contextpolicy AS policy ON policy.id = mysis.policy_id
"""
LOCK_MYSIS = f"{_MYSIS_COLUMNS}{_MYSIS}WHERE mysis.id = %(mysis)s FOR UPDATE OF mysis"
# Only while the turn is its open one, of its epoch, and it runs.
_FOR_TURN = f"""{_MYSIS}
JOIN agents_turn AS turn ON turn.mysis_id = mysis.id AND turn.outcome IS NULL
WHERE mysis.id = %(mysis)s AND mysis.epoch = %(epoch)s AND mysis.state = 'running'
  AND turn.id = %(turn)s
"""
LOAD_FOR_TURN = _MYSIS_COLUMNS + _FOR_TURN
# The turn is locked too: else one that was ended while this waited for the Mysis
# would be seen as it was before.
LOCK_FOR_TURN = LOAD_FOR_TURN + "FOR UPDATE OF mysis FOR NO KEY UPDATE OF turn"
# What the next call depends on beside the log and the game. A preview has the row of
# its Mysis, as it would be; a turn reads it with the rest, in one statement.
_INPUTS = """
  (SELECT text FROM agents_promptversion WHERE prompt_id = {prompt}
   ORDER BY number DESC LIMIT 1) AS prompt_text,
  (SELECT version.text FROM agents_promptversion AS version
   JOIN agents_prompt AS prompt ON prompt.id = version.prompt_id
   WHERE prompt.name = %(template)s ORDER BY version.number DESC LIMIT 1) AS template,
  (SELECT text FROM agents_broadcast WHERE NOT from_mysis
   ORDER BY id DESC LIMIT 1) AS broadcast,
  ARRAY(SELECT text FROM agents_pin WHERE mysis_id = {mysis} ORDER BY id) AS pin_texts,
  (SELECT tools::text FROM agents_toolcatalogue WHERE url = %(url)s) AS catalogue,
  (SELECT ARRAY[used, error, factor, samples]
   FROM memory_tokencalibration WHERE model = {model}) AS calibration,
  (SELECT jsonb_agg(to_jsonb(tried)) FROM (
    SELECT id, status, turn_number, error FROM memory_historysummary
    WHERE mysis_id = {mysis} ORDER BY id DESC LIMIT 3) AS tried) AS tried,
  (SELECT jsonb_build_object('id', id, 'through_id', through_id, 'text', text,
     'generation', generation, 'order_id', order_id, 'answer_id', answer_id)
   FROM memory_historysummary WHERE mysis_id = {mysis} AND status = 'active'
   ORDER BY through_id DESC LIMIT 1) AS summary
"""
INPUT_COLUMNS = (
    *("prompt_text", "template", "broadcast", "pin_texts", "catalogue"),
    *("calibration", "tried", "summary"),
)
CONTEXT_INPUTS = "SELECT" + _INPUTS.format(
    prompt="%(prompt)s::bigint", mysis="%(mysis)s", model="%(model)s"
)
LOAD_INPUTS_FOR_TURN = f"""{_MYSIS_COLUMNS},
  {_INPUTS.format(prompt="mysis.prompt_id", mysis="mysis.id", model="mysis.model")}
{_FOR_TURN}
"""
ACTIVE_ACCOUNT = """
SELECT account.* FROM agents_account AS account
JOIN agents_mysis AS mysis ON mysis.account_id = account.id WHERE mysis.id = %s
"""
MAY_SEND = "SELECT messaging FROM agents_mysis WHERE id = %s"
PROVIDERS_NAMED = "SELECT * FROM agents_provider WHERE name = ANY(%s)"
TOOL_CATALOGUE = "SELECT tools::text FROM agents_toolcatalogue WHERE url = %s"
OPEN_TURNS = "SELECT * FROM agents_turn WHERE mysis_id = %s AND outcome IS NULL"
OPEN_CALLS = "SELECT * FROM memory_memory WHERE mysis_id = %s AND pending ORDER BY id"
BEGIN_TURN = """
INSERT INTO agents_turn (
  mysis_id, number, epoch, job_id, trigger, iterations, input_tokens, output_tokens,
  cached_tokens, cost, latency_ms, error, started_at
) VALUES (%s, %s, %s, %s, %s, 0, 0, 0, 0, 0, 0, '', %s) RETURNING id
"""
OPEN_MODEL_CALL = """
INSERT INTO agents_modelcall (
  turn_id, kind, number, model, input_tokens, output_tokens, cached_tokens, cost,
  latency_ms, finish_reason, error, created_at
) VALUES (%s, %s, %s, %s, 0, 0, 0, 0, 0, '', '', %s) RETURNING id
"""
COUNT_MODEL_CALL = """
WITH turn AS (UPDATE agents_turn SET iterations = %s WHERE id = %s)
UPDATE agents_mysis SET activity = 'thinking' WHERE id = %s
"""
# Gives a row where the result was still wanted. The row of the Mysis first, as whoever
# ends a turn: it orders the two, and neither waits for the other's lock of the call.
STORE_RESULT = """
WITH owner AS (
  UPDATE agents_mysis
  SET last_memory_at = %(now)s, tick = coalesce(%(tick)s::bigint, tick)
  WHERE id = %(mysis)s RETURNING id
)
UPDATE memory_memory SET content = %(content)s, is_error = %(is_error)s,
  pending = false, tokens = %(tokens)s, tick = coalesce(%(tick)s::bigint, tick)
WHERE id = %(memory)s AND (SELECT count(*) FROM owner) >= 0
  AND (pending OR (content = %(unknown)s AND is_error)) RETURNING id
"""
RECORD_USAGE = """
WITH owner AS (
  -- First, as every other step of a turn does: else two could wait for each other.
  SELECT id FROM agents_mysis WHERE id = %(mysis_id)s FOR UPDATE
), call AS (
  UPDATE agents_modelcall SET
    input_tokens = %(input)s, output_tokens = %(output)s, cached_tokens = %(cached)s,
    cost = %(cost)s, latency_ms = %(latency_ms)s, finish_reason = %(finish_reason)s,
    error = %(error)s
  WHERE id = %(call_id)s AND (SELECT count(*) FROM owner) >= 0 RETURNING turn_id
), turn AS (
  UPDATE agents_turn SET
    input_tokens = input_tokens + %(input)s,
    output_tokens = output_tokens + %(output)s,
    cached_tokens = cached_tokens + %(cached)s,
    cost = cost + %(cost)s, latency_ms = latency_ms + %(latency_ms)s
  WHERE id = (SELECT turn_id FROM call)
), mysis AS (
  UPDATE agents_mysis SET
    input_tokens = input_tokens + %(input)s,
    output_tokens = output_tokens + %(output)s,
    cost = cost + %(cost)s
  WHERE id = %(mysis_id)s
)
INSERT INTO agents_usage AS kept (
  day, mysis_id, policy, model, calls, summaries, errors,
  input_tokens, output_tokens, cached_tokens, cost, latency_ms
) VALUES (
  %(day)s, %(mysis_id)s, %(policy)s, %(model)s, %(calls)s, %(summaries)s, %(errors)s,
  %(input)s, %(output)s, %(cached)s, %(cost)s, %(latency_ms)s
)
ON CONFLICT (mysis_id, day, policy, model) DO UPDATE SET
  calls = kept.calls + EXCLUDED.calls,
  summaries = kept.summaries + EXCLUDED.summaries,
  errors = kept.errors + EXCLUDED.errors,
  input_tokens = kept.input_tokens + EXCLUDED.input_tokens,
  output_tokens = kept.output_tokens + EXCLUDED.output_tokens,
  cached_tokens = kept.cached_tokens + EXCLUDED.cached_tokens,
  cost = kept.cost + EXCLUDED.cost,
  latency_ms = kept.latency_ms + EXCLUDED.latency_ms
"""

BUDGETS_OF_MYSIS = """
SELECT * FROM agents_budget
WHERE scope IN ('fleet', 'each') OR (scope = 'mysis' AND mysis_id = %(mysis)s)
  OR (scope = 'provider' AND label = ANY(%(providers)s))
  OR (scope = 'group' AND label = %(group)s AND label <> '')
  OR (scope = 'policy' AND policy_id = %(policy)s)
ORDER BY id
"""
# Gives a row where the amount fits. Counters of a day begin anew with the first call
# of the next; a worker whose clock is behind counts on.
TAKE_BUDGET = """
INSERT INTO agents_budgetspend AS kept (budget_id, subject, day, tokens, cost)
VALUES (%(budget)s, %(subject)s, %(day)s, %(tokens)s, %(cost)s)
ON CONFLICT (budget_id, subject) DO UPDATE SET
  tokens = EXCLUDED.tokens + CASE WHEN kept.day >= EXCLUDED.day THEN kept.tokens ELSE 0 END,
  cost = EXCLUDED.cost + CASE WHEN kept.day >= EXCLUDED.day THEN kept.cost ELSE 0 END,
  day = greatest(kept.day, EXCLUDED.day)
WHERE kept.day < EXCLUDED.day OR (
  (%(most_tokens)s::bigint IS NULL OR (
    kept.tokens < %(most_tokens)s AND kept.tokens + EXCLUDED.tokens <= %(most_tokens)s))
  AND (%(most_cost)s::numeric IS NULL OR (
    kept.cost < %(most_cost)s AND kept.cost + EXCLUDED.cost <= %(most_cost)s))
)
RETURNING id
"""


async def run_in_db(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run database work in one of a few threads; each keeps its connection.

    A thread for each turn, or a connection taken anew for each step, costs more than
    most of the work. Whoever is cancelled waits for the end of a step that has begun,
    so that what follows finds what it wrote.
    """
    return await wait_for_step(
        _threads.submit(_run_step, partial(work, *args, **kwargs))
    )


async def wait_for_step(step: Future[T]) -> T:
    """The result of a step of `run_in_db`."""
    ended = asyncio.wrap_future(step)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not step.cancel():
            await asyncio.wait([ended])
        raise


def _run_step(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        if connection.errors_occurred or not connection.get_autocommit():
            # To the pool, which throws away what is broken.
            connection.close()


def close_connections() -> None:
    """Let each of the threads give its connection back; no step may be under way."""
    together = Barrier(MOST_THREADS)

    def close() -> None:
        together.wait()
        connection.close()

    wait([_threads.submit(close) for _ in range(MOST_THREADS)])


def fetch_row(sql: str, values: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Run a statement and return its first row; None where it gives none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone() if cursor.description else None
