"""Settings out of range."""

from __future__ import annotations

from typing import Any

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.operators.studies.settings import StudySettings as Settings


def test_what_is_within_its_range_passes() -> None:
    Settings()
    assert Settings(check="off", seed=2**40, limit=1, launches=100, twin=False).as_options()["limit"] == 1


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("check", "hard", "one of auto, quick, full, off"),
        ("ci_width", 0, "a share"),
        ("ci_width", 1.0, "a share"),
        ("ci_width", "0.1", "a number of type float"),
        ("ci_width", float("nan"), "a share"),
        ("budget", 0, "seconds"),
        ("limit", float("inf"), "seconds"),
        ("limit", float("nan"), "seconds"),
        ("budget", True, "a number of type float"),
        ("launches", 0, "at least 1"),
        ("launches", 1.5, "a number of type int"),
        ("seed", -1, "at least 0"),
        ("seed", None, "a number of type int"),
        ("twin", "no", "True or False"),
    ],
)
def test_what_is_not_is_refused_by_name(name: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name}={value!r}") as caught:
        Settings(**{name: value})
    assert expected in str(caught.value)
