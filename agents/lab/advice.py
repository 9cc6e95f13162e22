"""How a recommendation is put to use: the policy to choose, for whom, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from agents.actions.base import name_mysis, write_version
from agents.actions.settings import DEFAULT_POLICY_CHOICE, FLEET
from agents.lab.recommend import (
    Recommendation,
    recommend_for_mysis,
    recommend_from_report,
)
from agents.models import Mysis, Replay
from memory.models import AuditEntry, ContextPolicy


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What a click chooses: ``policy`` for ``whom``, by a form sent to ``address``.

    ``version`` is what is chosen now. ``policy`` is None where no stored one has the
    settings; then ``store_address`` leads to a form that has them. Where it is in use,
    ``goes_back`` says that there is a way back to ``before``, None for the policy of
    those that have none of their own.
    """

    whom: str
    address: str
    version: str
    policy: ContextPolicy | None
    store_address: str
    is_in_use: bool
    goes_back: bool = False
    before: ContextPolicy | None = None

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
    return _offer(
        advice,
        whom=mysis.name,
        address=reverse("mysis-policy", args=[mysis.page_key]),
        version=write_version(mysis, ["policy"]),
        chosen=mysis.policy,
        changed=entries.order_by("-pk").first(),
    )


def offer_for_fleet(advice: Recommendation) -> PolicyChoice | None:
    """The recommended policy as the fleet's default."""
    default = ContextPolicy.objects.filter(is_default=True).first()
    entries = AuditEntry.objects.filter(action=DEFAULT_POLICY_CHOICE)
    return _offer(
        advice,
        whom=FLEET,
        address=reverse("fleet-policy"),
        version=str(default.pk) if default else "",
        chosen=default,
        changed=entries.order_by("-pk").first(),
    )


def _offer(
    advice: Recommendation,
    *,
    whom: str,
    address: str,
    version: str,
    chosen: ContextPolicy | None,
    changed: AuditEntry | None,
) -> PolicyChoice | None:
    best = advice.best
    if best is None or best.is_own:
        return None
    in_use = chosen is not None and chosen == best.stored
    goes_back, before = False, None
    if in_use and changed is not None and changed.after["policy"] == str(chosen):
        name = changed.before.get("policy")
        before = ContextPolicy.objects.filter(name=name or "").first()
        # One that was deleted or renamed since is no way back.
        goes_back = before is not None or not name
    store = f"{reverse('admin:memory_contextpolicy_add')}?{_write(best.settings)}"
    return PolicyChoice(
        whom, address, version, best.stored, store, in_use, goes_back, before
    )


def _write(settings: Mapping[str, Any]) -> str:
    """Settings as the admin's form of a new policy takes them from an address."""
    return urlencode({name: value for name, value in settings.items() if value})
