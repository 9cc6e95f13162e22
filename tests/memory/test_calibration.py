"""What is learnt of a model's tokens, and when counting follows it (A30)."""

from __future__ import annotations

import pytest

from agents import context_inputs
from memory import calibration
from memory.context.tokens import ERROR_BOUND
from memory.models import TokenCalibration
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db


def test_an_unknown_model_counts_as_estimated():
    assert calibration.read_factor("new") == calibration.TokenFactor(1.0, None)


def test_a_model_that_counts_more_is_counted_so_after_some_calls():
    for _ in range(12):
        used = calibration.read_factor("wordy").factor
        calibration.learn_factor("wordy", estimated=round(1000 * used), reported=1500)
    known = calibration.read_factor("wordy")
    assert known.factor == pytest.approx(1.5, rel=calibration.STEP)
    assert known.error is not None
    assert known.error < ERROR_BOUND


def test_a_report_without_numbers_teaches_nothing():
    calibration.learn_factor("m", estimated=0, reported=10)
    calibration.learn_factor("m", estimated=10, reported=0)
    assert not TokenCalibration.objects.exists()


def test_what_was_deleted_meanwhile_is_learnt_anew():
    calibration.learn_factor("m", estimated=1000, reported=1100)
    known = calibration.read_factor("m")
    TokenCalibration.objects.all().delete()
    calibration.learn_factor("m", estimated=1000, reported=1100, known=known)
    assert TokenCalibration.objects.get().samples == 1


def test_small_differences_move_no_mark():
    """A factor that wavers would move all marks, and no cache would ever be met."""
    for reported in (1010, 990, 1020, 1000) * 5:
        calibration.learn_factor("steady", estimated=1000, reported=reported)
    row = TokenCalibration.objects.get()
    assert (row.used, row.samples) == (1.0, 20)


def test_once_enough_is_known_few_calls_are_written_whatever_they_say():
    """To leave out those that agree would let only the odd ones teach."""
    for number in range(calibration.ENOUGH):
        calibration.learn_factor("m", estimated=1000 + number, reported=1000)
    before = TokenCalibration.objects.get().samples
    assert before == calibration.ENOUGH
    for number in range(80):
        calibration.learn_factor("m", estimated=1000 + number, reported=1000)
    assert TokenCalibration.objects.get().samples == before + 10


def test_two_kinds_of_text_on_one_model_settle_in_the_middle():
    """A factor that swings would move the marks of every context of the model."""
    used = set()
    for number in range(400):
        factor = calibration.read_factor("both").factor
        used.add(factor)
        ratio = 1.2 if number % 3 else 0.9
        estimated = round((1000 + number) * factor)
        calibration.learn_factor(
            "both", estimated=estimated, reported=round(ratio * (1000 + number))
        )
    assert len(used) <= 3


def test_what_was_learnt_stands_in_the_statistics_and_scales_the_counts():
    mysis = make_mysis(model="pilot")
    make_memory(mysis, content="word " * 400)
    before = context_inputs.preview_context(mysis).assembly.stats
    TokenCalibration.objects.create(model="pilot", used=1.5, factor=1.5, error=0.04)
    after = context_inputs.preview_context(mysis).assembly.stats
    assert (before["calibration"], after["calibration"]) == (1.0, 1.5)
    assert (before["estimate_error"], after["estimate_error"]) == (ERROR_BOUND, 0.04)
    ratio = after["tokens_out"] / before["tokens_out"]
    assert ratio == pytest.approx(1.5, abs=0.05)
