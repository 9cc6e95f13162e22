"""A setting to try, as programs name it, and the Myses that would have it."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field

from agents.lab.retaken import Setting
from agents.llm.endpoints import resolve
from agents.llm.model_types import ModelError
from agents.models import Mysis, Prompt
from memory.api.parameters import (
    Body,
    StrategyName,
    Text,
    build_example,
    get_owner,
    get_row,
)
from memory.api.policies import (
    PolicyBudgetIn,
    PolicyChange,
    change_values,
    name_fault,
)
from memory.models import ContextPolicy
from memory.problems import make_invalid


class PriceIn(Body):
    """What to try, and on whom.

    With ``mysis`` it is tried on that one. Without, a named ``policy`` or ``prompt`` is
    priced for all that have it, with what else is given changed in it.
    """

    model_config = build_example(
        mysis="Ada", strategy="window", options={"window": 12}, budget={"tokens": 16000}
    )

    mysis: Annotated[str | None, Field(description="Number or name.")] = None
    policy: Annotated[str | None, Field(description="Its name or number.")] = None
    strategy: StrategyName | None = None
    options: dict[str, Any] | None = None
    budget: PolicyBudgetIn | None = None
    prompt: Annotated[str | None, Field(description="Its name or number.")] = None
    text: Annotated[
        Text | None, Field(description="Of the prompt, as it would be.")
    ] = None
    model: Annotated[str | None, Field(min_length=1, max_length=300)] = None


class Tried(NamedTuple):
    """A setting, and who would have it."""

    myses: list[Mysis]
    setting: Setting


def read_trial(body: PriceIn) -> Tried:
    """The setting that is asked about; raises a Problem that names the field."""
    mysis = None if body.mysis is None else cast("Mysis", get_owner(body.mysis))
    policy = _read_policy(body, mysis)
    prompt = None
    if body.prompt is not None:
        prompt = get_row(Prompt.objects.all(), body.prompt, "prompt")
    if body.model is not None:
        _check_model(body.model)
    if body.text is not None and not body.text.strip():
        raise make_invalid(
            "text", "write something, as a prompt does, or leave it out."
        )
    setting = Setting(
        policy=policy or ...,
        prompt=prompt or ...,
        text=body.text,
        model=body.model or "",
    )
    if setting == Setting():
        raise make_invalid("policy", "name a policy, a prompt or a model to try.")
    if mysis is not None:
        return Tried([mysis], setting)
    return Tried(_list_users(body, policy, prompt), setting)


def _read_policy(body: PriceIn, mysis: Mysis | None) -> ContextPolicy | None:
    """The policy as it would be; None where nothing of it is asked for."""
    changes = body.model_dump(
        include={"strategy", "options", "budget"}, exclude_none=True
    )
    if body.policy is not None:
        policy = get_row(ContextPolicy.objects.all(), body.policy, "policy")
    elif not changes:
        return None
    elif mysis is None:
        raise make_invalid("policy", "name the policy that is changed, or a mysis.")
    else:
        policy = copy(mysis.effective_policy)
    other = body.strategy not in (None, policy.strategy)
    if other and body.options is None:
        # Options belong to a strategy.
        changes["options"] = {}
    changed = change_values(policy, PolicyChange(**changes))
    with name_fault():
        changed.full_clean(exclude=["name"])
    return changed


def _check_model(model: str) -> None:
    try:
        resolve(model)
    except ModelError as error:
        raise make_invalid("model", str(error)) from error


def _list_users(
    body: PriceIn, policy: ContextPolicy | None, prompt: Prompt | None
) -> list[Mysis]:
    """All who have the policy or the prompt; a model is tried on one Mysis."""
    if body.model is not None or (policy is None) == (prompt is None):
        raise make_invalid(
            "mysis", "name the Mysis to try this on; a policy or a prompt goes without."
        )
    users = (
        Mysis.select_users(policy.pk) if policy else Mysis.objects.filter(prompt=prompt)
    )
    return list(users.select_related("account", "policy", "prompt").order_by("pk"))
