"""Addresses of pages: a Mysis by its name, or by its number where that must be."""

from __future__ import annotations

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse

from agents.models import Mysis

# These stand for other pages, or vanish when a browser tidies up a path.
RESERVED = frozenset({"new", ".", ".."})


def page_key(mysis: Mysis) -> str:
    """What names a Mysis in the address of its page."""
    return str(mysis.pk) if mysis.name.lower() in RESERVED else mysis.name


def mysis_url(mysis: Mysis) -> str:
    """The address of a Mysis's page."""
    return reverse("mysis", args=[page_key(mysis)])


def find_mysis(key: str) -> Mysis:
    """The Mysis by number or name; raises Http404."""
    rows = Mysis.objects.select_related("account", "prompt", "policy")
    if key.isdecimal():
        if len(key) > 18:
            raise Http404("No such Mysis.")
        return get_object_or_404(rows, pk=int(key))
    return get_object_or_404(rows, name__iexact=key.replace("\x00", ""))
