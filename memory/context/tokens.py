"""Estimate the tokens of a text without a tokenizer (A30).

The estimate knows JSON, other dense text, prose and what is outside ASCII. It is
calibrated for each model by what the provider reported for earlier calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

TokenCounter = Callable[[str], int]

# Characters per token, by class of text.
JSON_RATIO = 1.8
DENSE_RATIO = 2.4
PROSE_RATIO = 4.0
# Tokens per UTF-8 byte outside ASCII: a CJK character of three bytes is about 1.2.
WIDE_BYTE_COST = 0.4
# The estimate is within this fraction of a real tokenizer on game traffic.
ERROR_BOUND = 0.25

_FACTOR_RANGE = (0.5, 2.0)
# No call weighs less than one part in so many, however many were seen before.
_SLOWNESS = 64
_JSON_MARKS = ('"', ":", ",", "{", "[")


def estimate_tokens(text: str) -> int:
    """The estimated tokens of a text: 0 only for an empty one."""
    length = len(text)
    if not length:
        return 0
    if text.isascii():
        return math.ceil(length / _ratio(text, length))
    narrow = len(text.encode("ascii", "ignore"))
    wide_bytes = len(text.encode("utf-8", "surrogatepass")) - narrow
    cost = narrow / _ratio(text, length) + wide_bytes * WIDE_BYTE_COST
    return math.ceil(cost)


def _ratio(text: str, length: int) -> float:
    if length < 12:
        return JSON_RATIO if text[0] in "{[" else PROSE_RATIO
    marks = sum(map(text.count, _JSON_MARKS))
    if marks * 12 > length:
        return JSON_RATIO
    if text.count(" ") * 12 < length and text.count("\n") * 12 < length:
        return DENSE_RATIO
    return PROSE_RATIO


def choose_counter(name: str, calibration: float = 1.0) -> TokenCounter:
    """The counter of that name: `estimate_tokens`, scaled by `calibration`, or `chars`."""
    if name == "chars":
        return len  # for tests with figures worked out by hand
    if name != "estimate":
        raise ValueError(f'counter: "{name}" is unknown; use "estimate" or "chars"')
    if calibration == 1.0:
        return estimate_tokens
    if not (math.isfinite(calibration) and calibration > 0):
        raise ValueError("calibration: must be a positive number")

    def calibrated(text: str) -> int:
        return math.ceil(estimate_tokens(text) * calibration)

    return calibrated


@dataclass(frozen=True, slots=True)
class Calibration:
    """What earlier calls taught about the tokens of one model (A30).

    `factor` multiplies the estimate, `error` is the fraction by which the calibrated
    estimate is expected to be off, `samples` counts the calls.
    """

    factor: float = 1.0
    error: float = ERROR_BOUND
    samples: int = 0

    def learn(self, *, estimated: int, reported: int) -> Calibration:
        """The calibration after one more call.

        `estimated` are its tokens as counted with this factor, `reported` those of
        the provider; a call without either teaches nothing. The factor is the mean
        over all calls, starting at 1, within 0.5 to 2.0: one odd report does not
        upset the budget. The error is the mean of |reported - estimated| / reported,
        at most 1 each, starting at `ERROR_BOUND`.
        """
        if estimated <= 0 or reported <= 0:
            return self
        seen = self.factor * reported / estimated
        low, high = _FACTOR_RANGE
        off = min(1.0, abs(reported - estimated) / reported)
        weight = 1 / min(self.samples + 2, _SLOWNESS)
        return Calibration(
            factor=min(high, max(low, self.factor + (seen - self.factor) * weight)),
            error=self.error + (off - self.error) * weight,
            samples=self.samples + 1,
        )


def choose_error_bound(name: str, measured: float | None) -> float:
    """How far a counter may be off: `measured` (ValueError below 0); `chars` is exact."""
    if measured is not None and not (math.isfinite(measured) and measured >= 0):
        raise ValueError("estimate_error: must be a number from 0")
    if name == "chars":
        return 0.0
    return ERROR_BOUND if measured is None else measured
