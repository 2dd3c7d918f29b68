"""Errors of functions that a graph calls in Python: TensorFlow keeps their text only, deep_bench the errors themselves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from deep_bench.errors import DeepBenchError

_MOST = 16
"""So many errors are kept at most: of several at once TensorFlow tells one."""

_MARK = "deep_bench host error"
_raised: dict[int, DeepBenchError] = {}
_numbers = itertools.count()


class HostError(Exception):
    """What a graph is told in the place of an error: its number."""


def told(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a graph may call it: its errors are kept for `as_raised`."""

    def call(*arrays: Any) -> Any:
        try:
            return function(*arrays)
        except DeepBenchError as error:
            number = next(_numbers)
            _raised[number] = error
            for old in list(_raised)[:-_MOST]:
                _raised.pop(old, None)
            raise HostError(f"{_MARK} {number}.") from error

    return call


def as_raised(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a graph, whose Python functions fail with their own errors."""
    try:
        return call(*arguments)
    except (HostError, tf.errors.OpError) as failure:
        match = re.search(f"{_MARK} (\\d+)\\.", str(failure))
        error = None if match is None else _raised.pop(int(match[1]), None)
        if error is None:
            raise
        raise error from error.__cause__
