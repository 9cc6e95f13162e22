"""How a model counts tokens, learnt from what its provider reports (A30)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.context.tokens import Calibration
from memory.models import TokenCalibration, fetch_rows

# The factor in use is replaced once it is off by more than this share.
STEP = 0.15
# After so many calls only one in several is learnt from.
ENOUGH = 32
ONE_IN = 8
# Nothing where another call was learnt from meanwhile.
_LEARN = """
UPDATE memory_tokencalibration
SET used = %s, factor = %s, error = %s, samples = %s, updated_at = now()
WHERE model = %s AND samples = %s AND factor = %s RETURNING model
"""


@dataclass(frozen=True, slots=True)
class TokenFactor:
    """The factor for counts of a model; ``error`` is None before the first report.

    ``mean`` is over all ``samples``, ``factor`` the one that counts are made with.
    """

    factor: float = 1.0
    error: float | None = None
    mean: float = 1.0
    samples: int = 0

    def learn(self, estimated: int, reported: int) -> TokenFactor:
        """The factor after one more call, estimated with this one."""
        known = Calibration().error if self.error is None else self.error
        counted = max(1, round(estimated * self.mean / self.factor))
        after = Calibration(self.mean, known, self.samples).learn(
            estimated=counted, reported=reported
        )
        used = after.factor
        if abs(after.factor - self.factor) <= STEP * self.factor:
            used = self.factor
        return TokenFactor(used, after.error, after.factor, after.samples)


def read_factor(model: str) -> TokenFactor:
    """What is known of a model's tokens."""
    rows = TokenCalibration.objects.filter(model=model)
    return parse_factor(rows.values_list("used", "error", "factor", "samples").first())


def parse_factor(row: Sequence[float] | None) -> TokenFactor:
    """The stored used factor, error, mean and samples; None where there are none."""
    if not row:
        return TokenFactor()
    used, error, mean, samples = row
    return TokenFactor(used, error, mean, int(samples))


def learn_factor(
    model: str, *, estimated: int, reported: int, known: TokenFactor | None = None
) -> None:
    """Learn from one call: our estimate, with the factor it had, and the report.

    A call without one of the two changes nothing; ``known`` was read before the call.
    """
    if estimated <= 0 or reported <= 0:
        return
    known = known or read_factor(model)
    if known.samples >= ENOUGH and estimated % ONE_IN:
        return
    # Calls of many workers meet here: each builds on the one before.
    while True:
        if not known.samples:
            first = TokenCalibration(model=model, error=Calibration().error)
            TokenCalibration.objects.bulk_create([first], ignore_conflicts=True)
        new = known.learn(estimated, reported)
        after = [new.factor, new.mean, new.error, new.samples]
        if fetch_rows(_LEARN, [*after, model, known.samples, known.mean]):
            return
        known = read_factor(model)
