"""The SQL of a turn that is about its Mysis, its calls, messages and orders.

A turn runs these statements in every call, mostly while it holds its Mysis's row: the
ORM takes three to four times as long for them, or more than one round trip. The other
half of a turn's SQL stands in `memory`, with the tables that it is about, and so do the
statements of events, schedules, accounts and the rate limit in their own modules.
"""

from __future__ import annotations

from datetime import timedelta

from memory.models.contexts import EFFECTIVE_POLICY
from memory.models.log import IS_ORDER, STANDS
from memory.notes import SELECT_CURRENT

_MYSIS_COLUMNS = f"""
SELECT mysis.*, account.id AS account_found, account.username AS account_name,
  {EFFECTIVE_POLICY} AS policy_wanted,
  policy.id AS policy_found, to_jsonb(policy) AS policy_row,
  clock.tick AS clock_tick, clock.seen_at AS clock_seen_at
"""
_MYSIS = f"""
FROM agents_mysis AS mysis
LEFT JOIN agents_account AS account ON account.id = mysis.account_id
LEFT JOIN memory_accountclock AS clock ON clock.username = account.username
LEFT JOIN memory_contextpolicy AS policy
  ON policy.id = {EFFECTIVE_POLICY}
"""
LOCK_MYSIS = f"{_MYSIS_COLUMNS}{_MYSIS}WHERE mysis.id = %(mysis)s FOR UPDATE OF mysis"
# Only while the turn is its open one, of its epoch, and it runs.
_FOR_TURN = f"""{_MYSIS}
JOIN agents_turn AS turn ON turn.mysis_id = mysis.id AND turn.outcome IS NULL
WHERE mysis.id = %(mysis)s AND mysis.epoch = %(epoch)s AND mysis.state = 'running'
  AND turn.id = %(turn)s
"""
# The turn is locked too: else one that was ended while this waited for the Mysis
# would be seen as it was before.
_LOCK = "FOR UPDATE OF mysis FOR NO KEY UPDATE OF turn"
LOCK_FOR_TURN = f"SELECT turn.id {_FOR_TURN} {_LOCK}"
SHOW_ACTIVITY = f"""
UPDATE agents_mysis SET activity = %(activity)s
WHERE id IN (SELECT mysis.id {_FOR_TURN}) RETURNING id
"""  # noqa: S608 (no input in the text)
# Budgets that the calls of the Mysis count in, as they were a moment ago: that is good
# enough, as what is spent of them is checked when a call takes its part.
_BUDGETS = f"""
  (SELECT coalesce(jsonb_agg(to_jsonb(budget) ORDER BY budget.id), '[]')
   FROM agents_budget AS budget
   WHERE scope IN ('fleet', 'each') OR (scope = 'mysis' AND budget.mysis_id = mysis.id)
     OR (scope = 'provider' AND label = ANY(%(providers)s))
     OR (scope = 'group' AND label = mysis."group" AND label <> '')
     OR (scope = 'policy'
         AND budget.policy_id = {EFFECTIVE_POLICY})
  ) AS budgets_found
"""  # noqa: S608 (no input in the text)
_OF_MYSIS = "FROM agents_mysis AS mysis WHERE mysis.id = %(mysis)s"
BUDGETS_OF_MYSIS = f"SELECT {_BUDGETS} {_OF_MYSIS}"
LOCK_FOR_CALL = f"{_MYSIS_COLUMNS}, {_BUDGETS} {_FOR_TURN} {_LOCK}"
# An operator's command is no call of a turn, and ends by itself unless it was broken off.
LONGEST_COMMAND = timedelta(minutes=15)
# Among so many rows the call is looked for whose outcome the game tells.
RECENT_CALLS = 400
_LEFT_OPEN = f"""
  mysis_id = %(mysis)s AND pending AND (
    turn_id IS NOT NULL OR created_at < now() - interval '{LONGEST_COMMAND}')
"""
OPEN_CALLS = f"SELECT * FROM memory_memory WHERE {_LEFT_OPEN} ORDER BY id"  # noqa: S608 (no input in the text)
# What a turn finds when it begins: calls left open by one that was lost, budgets, and
# whether the turns since the last that called a model were cut off before they could.
FIND_BEFORE_TURN = f"""
SELECT
  EXISTS (SELECT FROM agents_turn WHERE mysis_id = %(mysis)s AND outcome IS NULL)
  OR EXISTS (SELECT FROM memory_memory WHERE {_LEFT_OPEN}),
  EXISTS (
    SELECT FROM agents_turn
    WHERE mysis_id = %(mysis)s AND iterations = 0 AND error = ''
      AND outcome IN ('interrupted', 'stopped') AND number > coalesce((
        SELECT number FROM agents_turn WHERE mysis_id = %(mysis)s AND iterations > 0
        ORDER BY number DESC LIMIT 1), 0)
  ),
  {_BUDGETS},
  (SELECT coalesce(jsonb_agg(to_jsonb(provider)), '[]')
   FROM agents_provider AS provider WHERE name = ANY(%(providers)s))
{_OF_MYSIS}
"""  # noqa: S608 (no input in the text)
# A view quotes twenty of the orders that wait for an answer: of very many that no call
# has had, older ones are not read.
MOST_OPEN_ORDERS = 200
# From the newest on, one by one: where it was heard, as mostly, none of the others is
# read, whatever plan there is for them. The span keeps to the rows of one Mysis.
_UNHEARD = f"""
      WITH RECURSIVE unheard AS (
        SELECT 9223372036854775807 AS id, 0 AS place
        UNION ALL SELECT older.id, place + 1 FROM unheard CROSS JOIN LATERAL (
          SELECT id FROM memory_memory
          WHERE mysis_id BETWEEN mysis.id AND mysis.id AND id < unheard.id AND {IS_ORDER}
            AND {STANDS}
          ORDER BY mysis_id, id DESC LIMIT 1) AS older
        WHERE older.id > mysis.heard AND place < {MOST_OPEN_ORDERS}
      )
      SELECT said.id FROM unheard JOIN memory_memory AS said ON said.id = unheard.id
      WHERE said.role = 'user'
"""  # noqa: S608 (no input in the text)
_ORDER_IS_OPEN = "state IN ('queued', 'shown', 'answered')"
# Open orders that a nudge names: the newest, which a Mysis could not report otherwise,
# and the oldest that it has not answered, which is its mission.
NAMED_ORDERS = 5
# What the next call depends on beside the log and the game. A preview has the row of
# its Mysis, as it would be; a turn reads it with the rest, in one statement.
_INPUTS = f"""
  (SELECT text FROM agents_promptversion WHERE prompt_id = mysis.prompt_id
   ORDER BY number DESC LIMIT 1) AS prompt_text,
  (SELECT version.text FROM agents_promptversion AS version
   JOIN agents_prompt AS prompt ON prompt.id = version.prompt_id
   WHERE prompt.name = %(template)s ORDER BY version.number DESC LIMIT 1) AS template,
  -- The newest, unless it has ended: for this one, or for all where it never came here.
  (SELECT CASE WHEN coalesce(
      (SELECT {_ORDER_IS_OPEN} FROM agents_orderrecipient AS own
       WHERE own.order_id = told.id AND own.mysis_id = mysis.id),
      (SELECT bool_or({_ORDER_IS_OPEN}) FROM agents_orderrecipient AS every
       WHERE every.order_id = told.id), true) THEN sent.text END
   FROM agents_broadcast AS sent LEFT JOIN agents_order AS told ON told.broadcast_id = sent.id
   WHERE NOT from_mysis
     AND sent."group" IN ('', mysis."group") AND (sent.tag = '' OR sent.tag = ANY(mysis.tags))
     AND NOT EXISTS (SELECT FROM memory_memory AS got WHERE got.broadcast_id = sent.id
       AND got.mysis_id = mysis.id AND NOT got.{STANDS})
   ORDER BY sent.id DESC LIMIT 1) AS broadcast,
  ARRAY(SELECT ARRAY[text, digest] FROM agents_pin WHERE mysis_id = mysis.id
    AND state IN ('active', 'acknowledged') ORDER BY id) AS pinned,
  {SELECT_CURRENT} AS notes,
  (SELECT jsonb_object_agg(tool, policy) FROM agents_toolpolicy) AS tool_policies,
  (SELECT updated_at FROM agents_toolcatalogue WHERE url = %(url)s) AS catalogue_at,
  (SELECT tools::text FROM agents_toolcatalogue WHERE url = %(url)s
     AND updated_at IS DISTINCT FROM %(known_at)s::timestamptz) AS catalogue,
  (SELECT ARRAY[used, error, factor, samples]
   FROM memory_tokencalibration WHERE model = %(model)s) AS calibration,
  (SELECT jsonb_agg(to_jsonb(tried)) FROM (
    SELECT id, status, turn_number, error FROM memory_historysummary
    WHERE mysis_id = mysis.id ORDER BY id DESC LIMIT 3) AS tried) AS tried,
  (SELECT jsonb_build_object('id', id, 'through_id', through_id, 'text', text,
     'generation', generation, 'order_id', order_id, 'answer_id', answer_id)
   FROM memory_historysummary WHERE mysis_id = mysis.id AND status = 'active'
   ORDER BY through_id DESC LIMIT 1) AS summary,
  -- A try that was refused is made again, smaller, in the same iteration.
  (SELECT iterations - (SELECT count(*) FROM agents_modelcall AS tried
     WHERE tried.turn_id = turn.id AND tried.kind = 'turn' AND tried.error <> '')
   FROM agents_turn AS turn WHERE mysis_id = mysis.id AND outcome IS NULL
   ORDER BY id DESC LIMIT 1) AS calls_made,
  -- The mission is the oldest that is not answered, else the newest of those that are.
  (SELECT jsonb_build_object('ids', coalesce(jsonb_agg(DISTINCT id ORDER BY id), '[]'),
     'mission', (SELECT jsonb_build_array(id, content) FROM memory_memory WHERE id =
       coalesce(min(waiting.id) FILTER (WHERE NOT waiting.answered), max(waiting.id))))
   FROM (
    SELECT id, false AS answered FROM ({_UNHEARD}) AS unheard
    UNION SELECT said.id, false FROM (
      SELECT memory_id, done_at FROM agents_delivery WHERE mysis_id = mysis.id
      ORDER BY mysis_id DESC, memory_id DESC LIMIT {MOST_OPEN_ORDERS}) AS delivery
    JOIN memory_memory AS said ON said.id = delivery.memory_id
    WHERE delivery.done_at IS NULL AND {IS_ORDER} AND {STANDS}
    UNION SELECT said.id, told.state = 'answered' FROM (
      SELECT memory_id, state FROM agents_orderrecipient WHERE mysis_id = mysis.id
        AND {_ORDER_IS_OPEN} ORDER BY order_id DESC LIMIT {MOST_OPEN_ORDERS}) AS told
    JOIN memory_memory AS said ON said.id = told.memory_id AND said.{STANDS}
   ) AS waiting
   -- Reported, or ticked by an operator, in the middle of its turn.
   WHERE NOT EXISTS (SELECT FROM agents_orderrecipient AS ended
     WHERE ended.memory_id = waiting.id AND NOT {_ORDER_IS_OPEN})) AS open_orders,
  (SELECT jsonb_build_object('total', count(*), 'named', coalesce(jsonb_agg(
     jsonb_build_array(told.id, left(told.text, 300)) ORDER BY told.id)
       FILTER (WHERE told.place <= {NAMED_ORDERS} OR told.id = told.mission), '[]'))
   FROM (
    SELECT given.id, given.text, row_number() OVER (ORDER BY given.id DESC) AS place,
      min(given.id) FILTER (WHERE state <> 'answered') OVER () AS mission
    FROM agents_orderrecipient AS recipient
    JOIN agents_order AS given ON given.id = recipient.order_id
    WHERE recipient.mysis_id = mysis.id AND {_ORDER_IS_OPEN}) AS told) AS reportable,
  -- Over: it has ended, and the newest word, no order, is that the mission goes on.
  (SELECT jsonb_build_array(id, content, EXISTS (
     SELECT FROM agents_orderrecipient AS ended
     WHERE ended.memory_id = said.id AND NOT {_ORDER_IS_OPEN})
     AND NOT EXISTS (SELECT FROM agents_orderrecipient AS newest WHERE newest.memory_id = (
       SELECT id FROM memory_memory WHERE mysis_id BETWEEN mysis.id AND mysis.id
         AND {IS_ORDER} AND {STANDS} ORDER BY mysis_id DESC, id DESC LIMIT 1)))
   FROM memory_memory AS said
   -- As a span: else the planner may walk through the rows of every Mysis.
   WHERE mysis_id BETWEEN mysis.id AND mysis.id AND role = 'user' AND origin = 'human'
     AND {IS_ORDER} AND {STANDS}
   ORDER BY mysis_id DESC, id LIMIT 1) AS first_order
"""  # noqa: S608 (no input in the text)
CONTEXT_INPUTS = f"""
SELECT {_INPUTS}
FROM (SELECT %(mysis)s::bigint AS id, %(prompt)s::bigint AS prompt_id,
  %(group)s::text AS "group", %(tags)s::text[] AS tags, %(heard)s::bigint AS heard) AS mysis
"""  # noqa: S608 (no input in the text)
LOAD_INPUTS_FOR_TURN = f"{_MYSIS_COLUMNS}, {_INPUTS} {_FOR_TURN}"
# Also when the stored list of the game's tools was written last, which answers lost
# events have put in doubt, and where the last calls stand in the log.
TOOL_SESSION = """
SELECT mysis.messaging, account.id, account.username, account.sealed_session,
  (SELECT updated_at FROM agents_toolcatalogue WHERE url = %s),
  (SELECT jsonb_agg(to_jsonb(lost) ORDER BY lost.id) FROM agents_unknownoutcome AS lost
   WHERE lost.mysis_id = mysis.id AND lost.username = account.username),
  (SELECT jsonb_object_agg(tool, policy) FROM agents_toolpolicy),
  ARRAY(SELECT tool_name::text FROM memory_gamesnapshot
   WHERE username = account.username AND args_key = '' AND logged_out_at IS NULL
     AND (stale_reason = ANY(%s) OR jsonb_path_query_array(
       stale_fields, '$[*].causes[*].reason') ?| %s::text[])
   ORDER BY tool_name),
  (SELECT era FROM memory_accountclock WHERE username = account.username),
  (SELECT jsonb_object_agg(tool_name, last) FROM (
    SELECT tool_name, max(id) AS last FROM (
      SELECT id, role, tool_name FROM memory_memory
      -- As a span: else the planner may walk through the rows of every Mysis.
      WHERE mysis_id BETWEEN mysis.id AND mysis.id
      ORDER BY mysis_id, id DESC LIMIT 40) AS recent
    WHERE role = 'tool' GROUP BY tool_name) AS calls)
FROM agents_mysis AS mysis LEFT JOIN agents_account AS account
  ON account.id = mysis.account_id
WHERE mysis.id = %s
"""
# The turn of the newest call of some actions between two moments: of one that was refused
# only where there is no other. It has none where an operator called by hand.
TURN_OF_ACTION = f"""
SELECT turn_id FROM (
  SELECT id, role, tool_name, turn_id, created_at,
    is_error AND NOT starts_with(content, %(unknown)s) AS refused
  FROM memory_memory
  -- As a span: else the planner may walk through the rows of every Mysis.
  WHERE mysis_id BETWEEN %(mysis)s AND %(mysis)s
  ORDER BY mysis_id, id DESC LIMIT {RECENT_CALLS}) AS recent
WHERE role = 'tool' AND tool_name = ANY(%(actions)s)
  AND created_at > coalesce(%(since)s::timestamptz, '-infinity')
  AND created_at <= coalesce(%(until)s::timestamptz, 'infinity')
ORDER BY refused, id DESC LIMIT 1
"""  # noqa: S608 (no input in the text)
PROVIDERS_NAMED = "SELECT * FROM agents_provider WHERE name = ANY(%s)"
TOOL_CATALOGUE = """
SELECT tools::text, updated_at FROM agents_toolcatalogue WHERE url = %s
"""
TURNS_GOING_ON = """
SELECT turn.id FROM agents_turn AS turn JOIN agents_mysis AS mysis
  ON mysis.id = turn.mysis_id AND mysis.epoch = turn.epoch
WHERE turn.id = ANY(%s::bigint[]) AND turn.outcome IS NULL AND mysis.state = 'running'
"""
# What the event says follows, and where that is from. Its transaction's id is drawn
# before its own, as `agents.events` wants it.
_APPEND_EVENT = """
stamp AS MATERIALIZED (SELECT txid_current() AS xid), event AS (
  INSERT INTO agents_event (xid, kind, mysis_id, data, created_at)
  SELECT stamp.xid,
"""
# How far a message has come with the ``recipient`` of an order. When is kept of all,
# but whoever has said what became of it has the last word.
_REACH_ORDER = """
UPDATE agents_orderrecipient AS recipient
SET state = CASE WHEN {before} THEN '{state}' ELSE state END,
  changed_by = CASE WHEN {before} THEN 'runtime' ELSE changed_by END,
  changed_at = CASE WHEN {before} THEN %(now)s ELSE changed_at END, {times}
"""
# What tells that a row has its state since now.
_REACHED = """
RETURNING recipient.order_id, recipient.mysis_id, recipient.state,
  recipient.changed_by = 'runtime' AND recipient.changed_at = %(now)s AS is_news
"""
_SHOWN_NOW = "shown_at = coalesce(recipient.shown_at, %(now)s)"
_SHOW_ORDER = _REACH_ORDER.format(
    before="recipient.state = 'queued'", state="shown", times=_SHOWN_NOW
)
_ANSWER_ORDER = _REACH_ORDER.format(
    before="recipient.state IN ('queued', 'shown')",
    state="answered",
    times=f"{_SHOWN_NOW}, answered_at = coalesce(recipient.answered_at, %(now)s)",
)
# For each order that was just ``changed``.
_APPEND_ORDER_EVENTS = f"""
{_APPEND_EVENT} 'order.changed', changed.mysis_id, jsonb_build_object(
    'order', changed.order_id, 'state', changed.state, 'by', 'runtime'),
    clock_timestamp()
  FROM stamp, changed WHERE changed.is_news
)
"""
# What the account of a turn has, as far as anything told; null where nothing did.
_KNOWN_CREDITS = """
(SELECT credits FROM memory_gamesnapshot
 WHERE username = {name} AND tool_name = 'get_status' AND args_key = '')
"""
_OF_TURN = _KNOWN_CREDITS.format(name="agents_turn.username")
# Each statement that writes a turn keeps what is known of its credits then.
NOTE_CREDITS = f"""
credits_before = coalesce(credits_before, {_OF_TURN}),
credits_after = coalesce({_OF_TURN}, credits_after)
"""
# What differs is named; a turn from before settings were kept is no other.
_DIFFERENT = """
concat_ws(' ',
  CASE WHEN last.prompt_version_id IS DISTINCT FROM prompt.id THEN 'prompt' END,
  CASE WHEN (last.policy_name, last.policy_hash) <> (%(policy)s::varchar, %(policy_hash)s::varchar)
    THEN 'policy' END,
  CASE WHEN last.model <> %(model)s::varchar THEN 'model' END)
"""
BEGIN_TURN = f"""
WITH mysis AS (
  UPDATE agents_mysis SET turn_count = %(number)s, next_job = NULL, wake_at = NULL,
    activity = 'thinking'
  WHERE id = %(mysis)s
), turn AS (
  INSERT INTO agents_turn (
    mysis_id, number, epoch, job_id, trigger, iterations, input_tokens, output_tokens,
    cached_tokens, cost, latency_ms, error, started_at, policy_name, policy_hash, model,
    username, actions, failed_actions, credits_before, credits_after, prompt_version_id,
    previous_end, idle_seconds, changed
  )
  SELECT %(mysis)s, %(number)s, %(epoch)s, %(job)s, %(trigger)s, 0, 0, 0, 0, 0, 0,
    '', %(now)s::timestamptz, %(policy)s::varchar, %(policy_hash)s::varchar,
    %(model)s::varchar, %(username)s::varchar, 0, 0, known.credits, known.credits, prompt.id, last.finished_at,
    coalesce(greatest(0, extract(epoch FROM
      %(now)s::timestamptz - greatest(last.finished_at, last.waits_until))), 0),
    CASE WHEN last.model <> '' THEN {_DIFFERENT} ELSE '' END
  FROM (SELECT {_KNOWN_CREDITS.format(name="%(username)s::varchar")} AS credits) AS known
  LEFT JOIN (SELECT id FROM agents_promptversion WHERE prompt_id = %(prompt)s
    ORDER BY number DESC LIMIT 1) AS prompt ON true
  LEFT JOIN (SELECT finished_at, waits_until, prompt_version_id, policy_name, policy_hash,
    model FROM agents_turn WHERE mysis_id = %(mysis)s
    ORDER BY id DESC LIMIT 1) AS last ON true
  RETURNING id
), {_APPEND_EVENT} 'turn.started', %(mysis)s, jsonb_build_object('turn', turn.id,
    'number', %(number)s::int, 'trigger', %(trigger)s::text), clock_timestamp()
  FROM stamp, turn
)
SELECT id FROM turn
"""  # noqa: S608 (no input in the text)
# A call of a turn is counted in it; a summary is not, and has no ``counted``.
OPEN_MODEL_CALL = """
WITH turn AS (
  UPDATE agents_turn SET iterations = %(number)s WHERE id = %(turn)s AND %(counted)s
), mysis AS (
  UPDATE agents_mysis SET activity = 'thinking' WHERE id = %(mysis)s AND %(counted)s
)
INSERT INTO agents_modelcall (
  turn_id, kind, number, model, input_tokens, output_tokens, cached_tokens, cost,
  latency_ms, finish_reason, error, created_at
) VALUES (%(turn)s, %(kind)s, %(number)s, %(model)s, 0, 0, 0, 0, 0, '', '', %(now)s)
RETURNING id
"""
# Ends a turn, with what its Mysis is like after it.
END_COLUMNS = (
    *("trail", "empty_turns", "stuck", "failures", "lost_turns", "nudges"),
    *("last_error", "last_error_code", "activity", "next_job", "wake_at"),
)
END_TURN = f"""
WITH mysis AS (
  UPDATE agents_mysis SET {", ".join(f"{name} = %({name})s" for name in END_COLUMNS)}
  WHERE id = %(mysis)s
), turn AS (
  UPDATE agents_turn SET outcome = %(outcome)s, error = %(error)s, finished_at = %(now)s,
    waits_until = %(wake_at)s, actions = %(actions)s, failed_actions = %(failed_actions)s,
    {NOTE_CREDITS}
  WHERE id = %(turn)s
), {_APPEND_EVENT} %(kind)s, %(mysis)s, %(data)s::jsonb, clock_timestamp() FROM stamp)
SELECT
"""  # noqa: S608 (no input in the text)
CLOSE_TURN = f"""
UPDATE agents_turn SET outcome = %(outcome)s, error = %(error)s, finished_at = %(now)s,
  actions = %(actions)s, failed_actions = %(failed_actions)s, {NOTE_CREDITS}
WHERE id = %(turn)s
"""  # noqa: S608 (no input in the text)
FIND_AT_END = f"""
SELECT turn.number, turn.iterations, clock_timestamp(),
  EXISTS (SELECT FROM memory_memory WHERE {_LEFT_OPEN}),
  ARRAY(SELECT memory_id FROM agents_delivery
    WHERE mysis_id = %(mysis)s AND done_at IS NULL ORDER BY memory_id),
  -- By the newest alone: asked whether any is newer, the planner may read them all.
  coalesce((SELECT id FROM memory_memory
    WHERE mysis_id BETWEEN %(mysis)s AND %(mysis)s AND origin IN ('human', 'broadcast')
      AND {STANDS}
    ORDER BY mysis_id, id DESC LIMIT 1) > %(seen)s, false)
FROM agents_turn AS turn WHERE turn.id = %(turn)s AND turn.outcome IS NULL
"""  # noqa: S608 (no input in the text)
# Messages that no call had before: shown in this one, or left out of it for want of
# room. Orders among them are shown, or stay queued.
SHOW_MESSAGES = f"""
WITH told AS (
  SELECT * FROM unnest(%(messages)s::bigint[], %(shown)s::boolean[]) AS told(id, shown)
), delivery AS (
  INSERT INTO agents_delivery (
    memory_id, mysis_id, turn_id, turn_number, call_number, shown, shown_at
  ) SELECT told.id, %(mysis)s, %(turn)s, %(number)s, %(call)s, told.shown, %(now)s
    FROM told ON CONFLICT DO NOTHING
), mysis AS (
  UPDATE agents_mysis SET heard = %(newest)s WHERE id = %(mysis)s
), changed AS (
  {_SHOW_ORDER} FROM told WHERE recipient.memory_id = told.id AND told.shown {_REACHED}
), {_APPEND_ORDER_EVENTS}
SELECT
"""  # noqa: S608 (no input in the text)
# Messages whose turn ended by itself.
ANSWER_MESSAGES = f"""
WITH delivery AS (
  UPDATE agents_delivery SET done_at = %(now)s
  WHERE memory_id = ANY(%(messages)s::bigint[]) RETURNING memory_id, shown
), changed AS (
  {_ANSWER_ORDER} FROM delivery
  WHERE recipient.memory_id = delivery.memory_id AND delivery.shown {_REACHED}
), {_APPEND_ORDER_EVENTS}
SELECT
"""  # noqa: S608 (no input in the text)
# Rows of an answer, of which the first is what was said, with the event of that one and
# what its Mysis does then.
STORE_ANSWER = f"""
WITH said AS (
  {{insert}} RETURNING id
), mysis AS (
  UPDATE agents_mysis SET activity = %s, tick = coalesce(%s::bigint, tick),
    last_memory_at = %s WHERE id = %s
), {_APPEND_EVENT} 'memory.added', %s, jsonb_build_object('memory_id',
    (SELECT min(id) FROM said), 'role', %s::text, 'origin', %s::text), clock_timestamp()
  FROM stamp
)
SELECT id FROM said ORDER BY id
"""  # noqa: S608 (no input in the text)
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
