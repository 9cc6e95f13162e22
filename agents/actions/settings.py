"""Actions on budgets, prompts, summaries of histories, providers and tool policies."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max, QuerySet

from agents import events, scheduling
from agents.actions.base import (
    CHANGED,
    ActionError,
    check_text,
    check_version,
    describe_state,
    lock_mysis,
    validate_row,
)
from agents.budgets import restart_count
from agents.events import Kind
from agents.llm.prompts import DEFAULT_PROMPT
from agents.models import Budget, Mysis, Prompt, PromptVersion, Provider, ToolPolicy
from memory import audit
from memory.assembly import history_summaries
from memory.assembly.hashes import hash_text
from memory.context.summary_prompt import SUMMARY_HEADINGS
from memory.models import ContextPolicy, HistorySummary

# The prompt that asks for summaries; authors edit it. The rules of the answer (its tags,
# that the record is data) are added by the context core, so that no edit breaks them.
SUMMARY_PROMPT_NAME = "summarization"

# What a budget counts depends on these.
_COUNTED = ("scope", "mysis_id", "policy_id", "label", "period")
# What the version of a budget is of.
BUDGET_COLUMNS = ("name", "period", "tokens", "cost")

DEFAULT_PROMPT_NAME = "captain"

# What the audit log calls the choice of the policy of those that have none of their own.
DEFAULT_POLICY_CHOICE = "policy.choose"
FLEET = "the fleet"


@transaction.atomic
def save_budget(*, budget: Budget, version: str | None = None) -> Budget:
    """Store a new or changed budget; it counts from the next call on.

    One of a day counts the whole day, also what was spent before it was made; another
    counts from its making on. Another limit leaves the count as it is. With another
    scope, target or period it is taken from what was used: today, or on all days since
    the one of its making.
    ``version`` is `write_version` of the `BUDGET_COLUMNS` of a stored one, as the caller
    saw it last. Raises ActionError: 422 without a limit or target, 409 where it is
    another now.
    """
    validate_row(budget)
    # Locked in the same order as by a call: Myses before counters.
    held = _lock_held()
    if version is not None:
        _check_budget(budget, version)
    before = Budget.objects.filter(pk=budget.pk).values_list(*_COUNTED).first()
    old = audit.read_stored(budget)
    budget.save()
    audit.record_change(
        "budget.update" if old else "budget.create",
        f"budget:{budget.name}",
        before=old,
        after=audit.read_columns(budget),
    )
    counted = tuple(getattr(budget, name) for name in _COUNTED)
    if before != counted and (before or budget.period == Budget.Period.DAY):
        restart_count(budget)
    scheduling.schedule_all(held, trigger="budget")
    return budget


@transaction.atomic
def delete_budget(*, budget: Budget, version: str | None = None) -> None:
    """Delete a budget with its counters; ``version`` as of `save_budget`."""
    # Locked in the same order as by a call: Myses before counters.
    held = _lock_held()
    if version is not None:
        _check_budget(budget, version)
    told = audit.read_columns(budget)
    audit.record_change("budget.delete", f"budget:{budget.name}", before=told)
    budget.delete()
    scheduling.schedule_all(held, trigger="budget")


def _check_budget(budget: Budget, version: str) -> None:
    """Raise ActionError 409 where a stored budget was changed or deleted meanwhile."""
    stored = Budget.objects.select_for_update(of=("self",)).filter(pk=budget.pk).first()
    if stored is None:
        raise ActionError(f"{budget.name} was deleted meanwhile.", code=CHANGED)
    check_version(stored, BUDGET_COLUMNS, version)


def _lock_held() -> list[Mysis]:
    """Lock the Myses that wait for a budget: they get a turn, and may be held anew."""
    held = Mysis.objects.select_for_update(of=("self",)).exclude(hold="")
    return list(held.filter(state=Mysis.State.RUNNING).order_by("pk"))


@transaction.atomic
def save_prompt(*, prompt: Prompt, text: str, by: str, note: str = "") -> PromptVersion:
    """Add a version; views use it from the next call on (A10)."""
    Prompt.objects.select_for_update().get(pk=prompt.pk)
    newest = prompt.versions.aggregate(n=Max("number"))["n"] or 0
    version = PromptVersion.objects.create(
        prompt=prompt,
        number=newest + 1,
        text=check_text(text, "The prompt"),
        author=by,
        note=note.replace("\x00", "")[:300],
    )
    events.append(
        Kind.PROMPT_CHANGED,
        data={"prompt": prompt.name, "version": version.number, "by": by},
    )
    audit.record(
        "prompt.update" if newest else "prompt.create",
        f"prompt:{prompt.name}",
        by=by,
        before={"version": newest} if newest else {},
        after={
            "version": version.number,
            "note": version.note,
            "length": len(version.text),
            "sha256": hash_text(version.text),
        },
    )
    return version


def rollback_prompt(*, prompt: Prompt, number: int, by: str) -> PromptVersion:
    """Make an old version current again, as a new version.

    Raises ActionError 404 for one that is not there, 409 for the current one.
    """
    old = prompt.versions.filter(number=number).first()
    if old is None:
        raise ActionError(
            f"{prompt.name} has no version {number}.", code="not_found", status=404
        )
    if old == prompt.current:
        raise ActionError(
            f"Version {number} of {prompt.name} is the current one already.",
            code="conflict",
        )
    return save_prompt(
        prompt=prompt, text=old.text, by=by, note=f"rolled back to version {number}"
    )


@transaction.atomic
def get_default_prompt() -> Prompt:
    """The prompt of a Mysis that names none; made when needed, with that for summaries."""
    install_summary_prompt()
    prompt, made = Prompt.objects.get_or_create(name=DEFAULT_PROMPT_NAME)
    if made:
        save_prompt(prompt=prompt, text=DEFAULT_PROMPT, by="system", note="installed")
    return prompt


@transaction.atomic
def take_back_summary(*, summary: HistorySummary, by: str) -> HistorySummary | None:
    """Use the summary before it again, or else the history itself.

    Returns the older summary, if any. Raises ActionError 409 for one that is not in use.
    """
    mysis = lock_mysis(summary.mysis)
    try:
        older = history_summaries.revert_summary(summary, turn=mysis.turn_count)
    except history_summaries.Outdated as error:
        raise ActionError(str(error), code="conflict") from error
    instead = f"summary {older.generation}" if older else "the history itself"
    reason = f"Summary {summary.generation} was taken back: {instead} is sent again."
    _append_compaction_event(summary, "reverted", by, reason)
    audit.record(
        "summary.take_back",
        f"summary:{mysis.name}/{summary.generation}",
        by=by,
        after={"instead": instead},
    )
    return older


@transaction.atomic
def clear_failed_summaries(*, chosen: QuerySet[HistorySummary], by: str) -> int:
    """Clear failures, so that the next turn may try again; returns how many."""
    failed = chosen.filter(status=HistorySummary.Status.FAILED)
    rows = list(failed.select_related("mysis"))
    history_summaries.clear_failures(failed)
    for row in rows:
        _append_compaction_event(row, "cleared", by, "A failed summary was cleared.")
    if rows:
        told = {"summaries": [str(row) for row in rows]}
        audit.record("summary.clear_failed", by=by, before=told)
    return len(rows)


def _append_compaction_event(
    row: HistorySummary, status: str, by: str, reason: str
) -> None:
    data = {
        "summary": row.pk,
        "generation": row.generation,
        "status": status,
        "reason": reason,
        "by": by,
    }
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=row.mysis_id, data=data)


@transaction.atomic
def install_summary_prompt() -> None:
    """Make the prompt for summaries with the built-in text where there is none."""
    prompt, made = Prompt.objects.get_or_create(name=SUMMARY_PROMPT_NAME)
    if made:
        PromptVersion.objects.create(
            prompt=prompt,
            number=1,
            text=SUMMARY_HEADINGS,
            author="system",
            note="installed",
        )


@transaction.atomic
def save_provider(*, provider: Provider) -> Provider:
    """Store a new or changed provider whose values were checked."""
    stored = Provider.objects.select_for_update().filter(pk=provider.pk).first()
    old = audit.read_columns(stored)
    provider.save()
    audit.record_change(
        "provider.update" if old else "provider.create",
        f"provider:{stored or provider}",
        before=old,
        after=audit.read_columns(provider),
    )
    return provider


@transaction.atomic
def choose_default_policy(
    *, policy: ContextPolicy | None, by: str, version: str | None = None
) -> ContextPolicy | None:
    """Make a policy the fleet's default; with None it is the built-in one.

    ``version`` is the number of the default as the caller saw it, "" for none: raises
    ActionError 409 where it is another now.
    """
    held = _lock_held()
    before = ContextPolicy.objects.select_for_update().filter(is_default=True).first()
    if version is not None and version != (str(before.pk) if before else ""):
        raise ActionError(
            "The fleet's policy was changed meanwhile by somebody else: look at it, "
            "then choose again.",
            code=CHANGED,
        )
    if policy == before:
        return policy
    # As the default a policy takes the place of the one before.
    row = policy or before
    assert row is not None  # noqa: S101 (they differ)
    row.is_default = policy is not None
    row.save(update_fields=["is_default", "updated_at"])
    without = Mysis.objects.filter(policy=None).order_by("pk")
    events.append_all([describe_state(one, by, changed=["policy"]) for one in without])
    scheduling.schedule_all(held, trigger="budget")
    audit.record(
        DEFAULT_POLICY_CHOICE,
        FLEET,
        by=by,
        before={"policy": before and before.name},
        after={"policy": policy and policy.name},
    )
    return policy


@transaction.atomic
def save_tool_policy(*, tool: str, policy: str) -> ToolPolicy:
    """Set what a tool counts as in the whole fleet, from the next call on.

    Raises ActionError 422 for what is no tool's name or no policy.
    """
    rows = ToolPolicy.objects.select_for_update()
    row = rows.filter(tool=tool).first() or ToolPolicy(tool=tool)
    old = audit.read_stored(row)
    row.policy = policy
    validate_row(row)
    row.save()
    audit.record_change(
        "tool_policy.update" if old else "tool_policy.create",
        f"tool:{tool}",
        before=old,
        after=audit.read_columns(row),
    )
    return row


@transaction.atomic
def delete_tool_policy(*, tool: str) -> bool:
    """Let a tool go by what is known of it again; whether anything was set for it."""
    row = ToolPolicy.objects.select_for_update().filter(tool=tool).first()
    if row is None:
        return False
    told = {"policy": row.policy}
    audit.record("tool_policy.delete", f"tool:{tool}", before=told)
    row.delete()
    return True
