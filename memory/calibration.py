"""How a model counts tokens, learnt from what its provider reports (A30)."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from memory.context.tokens import Calibration
from memory.models import TokenCalibration, fetch_rows

# The factor in use is replaced once it is off by more than this share.
STEP = 0.15
# After so many calls only one in several is learnt from.
ENOUGH = 32
ONE_IN = 8
_KNOWN = "SELECT used, error, samples FROM memory_tokencalibration WHERE model = %s"


@dataclass(frozen=True, slots=True)
class TokenFactor:
    """The factor for counts of a model; ``error`` is None before the first report."""

    factor: float = 1.0
    error: float | None = None


def read_factor(model: str) -> TokenFactor:
    """What is known of a model's tokens."""
    rows = fetch_rows(_KNOWN, [model])
    return next((TokenFactor(used, error) for used, error, _ in rows), TokenFactor())


@transaction.atomic(savepoint=False)
def learn_factor(model: str, *, estimated: int, reported: int) -> None:
    """Learn from one call: our estimate, with the factor it had, and the report.

    A call without one of the two numbers changes nothing.
    """
    if estimated <= 0 or reported <= 0:
        return
    found = fetch_rows(_KNOWN, [model])
    if found and found[0][2] >= ENOUGH and estimated % ONE_IN:
        return
    if not found:
        new = TokenCalibration(model=model, error=Calibration().error)
        TokenCalibration.objects.bulk_create([new], ignore_conflicts=True)
    # Calls of many workers meet here: each builds on the one before.
    row = TokenCalibration.objects.select_for_update().get(pk=model)
    before = Calibration(row.factor, row.error, row.samples)
    after = before.learn(
        estimated=max(1, round(estimated * row.factor / row.used)), reported=reported
    )
    row.factor, row.error, row.samples = after.factor, after.error, after.samples
    if abs(row.factor - row.used) > STEP * row.used:
        row.used = row.factor
    row.save()
