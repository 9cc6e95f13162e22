"""Where to mend what stopped a Mysis: every error leads to a form or a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse

from agents.llm.endpoints import heads
from agents.models import Mysis, Provider

from .addresses import page_key

# What only an admin may open is shown to admins only.
ADMINS, ALL = "admin-only", ""

# By the sentences that errors are kept as; what none of them names is mended in the
# Mysis's own form. The first that fits counts.
NO_MODEL = re.compile(r"no provider is named|names a provider but no model", re.I)
CONTEXT = re.compile(r"context policy|budget|window|answered 413", re.I)
REQUEST = re.compile(r"answered 400|the request that was sent", re.I)
PROVIDER = re.compile(
    r"api key|the key of provider|base url|answered \d{3}|provider is up|"
    r"could not be reached|the provider|no completion|out of reach",
    re.I,
)
KEY = re.compile(r"api key|answered 40[123]", re.I)
GAME = re.compile(r"\bgame\b", re.I)
ACCOUNT = re.compile(r"\baccount\b|password|registration", re.I)


@dataclass(frozen=True, slots=True)
class Fix:
    """Where to mend it; ``css`` names who may."""

    label: str
    link: str
    css: str = ADMINS


def providers() -> Mapping[str, int]:
    """Numbers of the providers in the database, by name."""
    return dict(Provider.objects.values_list("name", "pk"))


def fix_of(mysis: Mysis, known: Mapping[str, int]) -> Fix:
    """The form or page that mends its last error; ``known`` are the providers."""
    words = mysis.last_error
    if NO_MODEL.search(words):
        return _own(mysis, "Change its model")
    if words.startswith(mysis.model) or not GAME.search(words):
        return _mind(mysis, words, known)
    if ACCOUNT.search(words):
        return Fix("Accounts", reverse("accounts"), ALL)
    return Fix("Health", reverse("health"), ALL)


def _mind(mysis: Mysis, words: str, known: Mapping[str, int]) -> Fix:
    """An error of its model or of its context."""
    if REQUEST.search(words):
        return Fix(
            "What was sent", reverse("mysis-context", args=[page_key(mysis)]), ALL
        )
    if CONTEXT.search(words):
        return _policy(mysis)
    if PROVIDER.search(words):
        return _provider(mysis, known)
    return _own(mysis, "Its settings")


def _own(mysis: Mysis, label: str) -> Fix:
    return Fix(label, reverse("admin:agents_mysis_change", args=[mysis.pk]))


def _policy(mysis: Mysis) -> Fix:
    if mysis.policy_id is None:
        return _own(mysis, "Give it a context policy")
    link = reverse("admin:memory_contextpolicy_change", args=[mysis.policy_id])
    return Fix("Its context policy", link)


def _provider(mysis: Mysis, known: Mapping[str, int]) -> Fix:
    """The form of the provider that its model belongs to, or that of a new one."""
    found = next((name for name in heads(mysis.model) if name in known), None)
    if found is None and not KEY.search(mysis.last_error):
        # It comes from the environment: what can be mended here is the name.
        return _own(mysis, "Change its model")
    if found is None:
        return Fix("Add its provider", reverse("admin:agents_provider_add"))
    link = reverse("admin:agents_provider_change", args=[known[found]])
    return Fix(f"Provider {found}", link)
