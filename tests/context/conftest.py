"""A property that holds of nothing is none."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a property of ``with_each`` that was seen through for none of a case's logs."""
    called = yield
    if given := getattr(pyfuncitem.obj, "hypothesis", None):
        checked: dict[str, int] = getattr(given.inner_test, "checked", {})
        assert [case for case, times in checked.items() if not times] == []
    return called
