"""Errors say what came, what was expected and what to do."""

from __future__ import annotations

import inspect
import pickle

import pytest

from deep_bench import errors
from deep_bench.errors import (
    DeepBenchError,
    FrameworkMissing,
    Incomparable,
    InvalidArgument,
    UnknownName,
    Unsupported,
    UnsupportedOperator,
)

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, DeepBenchError)]


def example(kind: type[DeepBenchError]) -> DeepBenchError:
    if issubclass(kind, UnknownName):
        return kind("framework", "torhc", ["torch", "tensorflow"])
    if issubclass(kind, UnsupportedOperator):
        return kind("n1", "Conv", 28, "five spatial dimensions")
    if issubclass(kind, Incomparable):
        return kind("two records", {"governor": ("performance", "powersave")}, "allow it")
    return kind("size -1 for 'x'", "at least 0", "give another")


def test_message_holds_all_three_parts() -> None:
    error = InvalidArgument("size -1 for 'x'", "at least 0", "give another")
    assert str(error) == "size -1 for 'x'\nExpected: at least 0\nWhat to do: give another"


def test_parts_that_are_missing_leave_no_empty_line() -> None:
    assert str(InvalidArgument("it came")) == "it came"
    assert str(InvalidArgument("it came", advice="do this")) == "it came\nWhat to do: do this"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind: type[DeepBenchError]) -> None:
    error = example(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.came
    assert (again.came, again.expected, again.advice) == (error.came, error.expected, error.advice)


def test_unknown_name_suggests_the_nearest() -> None:
    error = UnknownName("framework", "torhc", ["torch", "tensorflow"])
    assert "unknown framework 'torhc'" in str(error)
    assert "did you mean 'torch'?" in str(error)
    assert "tensorflow, torch" in str(error)
    assert isinstance(error, KeyError)


def test_unknown_name_lists_what_there_is_where_none_is_near() -> None:
    assert "did you mean" not in str(UnknownName("framework", "xyz", ["torch"]))
    assert "(none)" in str(UnknownName("framework", "xyz", []))


def test_an_operator_that_cannot_run_is_named_whole() -> None:
    error = UnsupportedOperator("n1", "Conv", 28, "five spatial dimensions")
    assert str(error) == "node 'n1' (Conv, opset 28) cannot run here: five spatial dimensions"
    assert isinstance(error, Unsupported)


def test_a_missing_framework_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        raise FrameworkMissing("framework 'x' needs x")


def test_what_others_said_at_length_is_shortened() -> None:
    message = str(DeepBenchError(f"it raised begin {'x' * 100_000} end", "less", "say less"))
    assert len(message) < 5_000
    assert message.startswith("it raised begin xxx")
    assert "characters left out" in message
    assert message.endswith(" end\nExpected: less\nWhat to do: say less")
