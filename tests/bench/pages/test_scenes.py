"""The fleets that the pages are measured with."""

from __future__ import annotations

import pytest

from bench.pages import scenes
from memory.models import HistorySummary, Memory


@pytest.mark.django_db
def test_those_who_remember_differ_in_length_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scenes, "UNCOVERED", 4)
    for count in (5, 12):
        mysis = scenes.make_remembering_mysis(count)
        summary = HistorySummary.objects.get(mysis=mysis)
        rows = Memory.objects.filter(mysis=mysis)
        assert rows.count() == count
        assert rows.filter(pk__gt=summary.through_id).count() == 4
