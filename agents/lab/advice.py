"""How a recommendation is put to use: the policy to choose, for whom, and the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Q
from django.urls import reverse
from django.utils.http import urlencode

from agents.actions.base import name_mysis, write_version
from agents.actions.settings import DEFAULT_POLICY_CHOICE, FLEET
from agents.lab.recommend import (
    SETTINGS,
    Recommendation,
    recommend_for_mysis,
    recommend_from_report,
)
from agents.models import Mysis, Replay
from memory.models import AuditEntry, ContextPolicy


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What a click chooses: ``policy`` for ``whom``, by a form sent to ``address``.

    ``version`` is what is ``chosen`` now, and ``reach`` whom it counts for. ``policy`` is
    None where no stored one has the settings; then ``store_address`` leads to a form that
    has them. Both are empty where nothing is to be chosen. ``goes_back`` says that there
    is a way back to ``before``, None for the policy of those that have none of their own.
    """

    whom: str
    address: str
    version: str
    chosen: ContextPolicy | None
    reach: str
    policy: ContextPolicy | None = None
    store_address: str = ""
    goes_back: bool = False
    before: ContextPolicy | None = None

    @property
    def is_in_use(self) -> bool:
        return self.chosen is not None and self.chosen == self.policy

    @property
    def is_offered(self) -> bool:
        """Whether there is something to choose, or to store first."""
        stored = self.policy is not None and not self.is_in_use
        return stored or bool(self.store_address)

    @property
    def settings(self) -> str:
        """The settings that were judged: what a policy has by now may be another thing."""
        return write_version(self.policy, SETTINGS) if self.policy else ""

    @property
    def before_label(self) -> str:
        if self.before is not None:
            return self.before.name
        return "the built-in policy" if self.whom == FLEET else "the fleet's default"


def describe_mysis_advice(mysis: Mysis) -> dict[str, Any]:
    """What its Context page shows of the recommendation for a Mysis."""
    advice = recommend_for_mysis(mysis)
    choice = offer_for_mysis(advice, mysis) if advice else None
    return {"advice": advice, "choice": choice}


def describe_replay_advice(replay: Replay) -> dict[str, Any]:
    """The same of a finished replay; nobody chooses for a group or a tag."""
    advice, choice = recommend_from_report(replay), None
    if advice is not None and replay.mysis is not None:
        choice = offer_for_mysis(advice, replay.mysis)
    elif advice is not None and not replay.label:
        choice = offer_for_fleet(advice)
    return {"advice": advice, "choice": choice}


def offer_for_mysis(advice: Recommendation, mysis: Mysis) -> PolicyChoice | None:
    """The recommended policy for a Mysis; None where there is nothing to choose."""
    entries = AuditEntry.objects.filter(
        action="mysis.update", object=name_mysis(mysis), after__has_key="policy"
    )
    choice = PolicyChoice(
        whom=mysis.name,
        address=reverse("mysis-policy", args=[mysis.page_key]),
        version=write_version(mysis, ["policy"]),
        chosen=mysis.policy,
        reach="It counts from the next call on.",
    )
    return _offer(choice, advice, entries.order_by("-pk").first())


def offer_for_fleet(advice: Recommendation) -> PolicyChoice | None:
    """The recommended policy as the fleet's default."""
    default = ContextPolicy.objects.filter(is_default=True).first()
    entries = AuditEntry.objects.filter(action=DEFAULT_POLICY_CHOICE)
    myses = Mysis.objects.aggregate(all=Count("pk"), of=Count("pk", Q(policy=None)))
    choice = PolicyChoice(
        whom=FLEET,
        address=reverse("fleet-policy"),
        version=str(default.pk) if default else "",
        chosen=default,
        reach=(
            f"It counts from the next calls on for the {myses['of']:,} of {myses['all']:,} "
            "Myses that have no policy of their own."
        ),
    )
    return _offer(choice, advice, entries.order_by("-pk").first())


def _offer(
    choice: PolicyChoice, advice: Recommendation, changed: AuditEntry | None
) -> PolicyChoice | None:
    """The choice with what is recommended, and with the way back that was recorded."""
    best = advice.best if advice.best and not advice.best.is_own else None
    goes_back, before = False, None
    if choice.chosen and changed and changed.after["policy"] == choice.chosen.name:
        name = changed.before.get("policy")
        before = ContextPolicy.objects.filter(name=name or "").first()
        # One that was deleted or renamed since is no way back.
        goes_back = before is not None or not name
    if best is None and not goes_back:
        return None
    return replace(
        choice,
        policy=best.stored if best else None,
        store_address=_write_address(best.settings) if best and not best.stored else "",
        goes_back=goes_back,
        before=before,
    )


def _write_address(settings: Mapping[str, Any]) -> str:
    """Where the admin's form of a new policy has these settings."""
    query = urlencode({**settings, "options": json.dumps(settings["options"])})
    return f"{reverse('admin:memory_contextpolicy_add')}?{query}"
