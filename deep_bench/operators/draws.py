"""Contents for the inputs of a case, pure in a generator: each draw knows what its numbers mean to the operator."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.operators.argument import Argument
from deep_bench.operators.draws_kinds import DRAWS
from deep_bench.operators.draws_numbers import DISTRIBUTIONS, Request

__all__ = ["DISTRIBUTIONS", "DRAWS", "check_draw", "draw"]


def draw(
    argument: Argument, rng: np.random.Generator, distribution: str = "normal", limit: float | None = None
) -> np.ndarray:
    """Random contents for an argument.

    Args:
        argument: Its shape, element type and draw.
        rng: The generator.
        distribution: One of `DISTRIBUTIONS`; a function that draws is called as it is.
        limit: The largest magnitude, if the distribution is ``huge``, ``wide`` or ``special``.

    Raises:
        UnknownName: No such distribution or draw.
        InvalidArgument: A draw with numbers that do not fit it, or a function that gives another shape or element type.

    Example:
        >>> from deep_bench.tensor import TensorSpec
        >>> indices = Argument(TensorSpec("indices", (5,), np.dtype("int64")), draw="below:3")
        >>> bool(set(draw(indices, np.random.default_rng(0)).tolist()) <= {0, 1, 2})
        True
    """
    if distribution not in DISTRIBUTIONS:
        raise UnknownName("distribution", distribution, DISTRIBUTIONS)
    if callable(argument.draw):
        return _checked(argument, np.asarray(argument.draw(rng, argument.spec)))
    check_draw(argument.draw)
    name, *written = argument.draw.split(":")
    request = Request(rng, argument.shape, argument.dtype, distribution, limit)
    try:
        array = DRAWS[name](request, *map(_number, written))
    except (MemoryError, ValueError, OverflowError) as error:  # NumPy says in any of these that an array is too large
        raise InvalidArgument(f"{argument} drawn as {argument.draw!r}: {error}", "a draw that fits the shape") from error
    return np.ascontiguousarray(np.asarray(array, argument.dtype)).reshape(argument.shape)


def check_draw(written: str) -> None:
    """Refuse a draw that does not exist, or that has something else than numbers after its name.

    Raises:
        UnknownName: No such draw.
        InvalidArgument: Not a number.
    """
    name, *numbers = written.split(":")
    if name not in DRAWS:
        raise UnknownName("draw", name, DRAWS)
    for number in numbers:
        try:
            float(number)
        except ValueError as error:
            raise InvalidArgument(f"the draw {written!r}", "a name, followed by numbers after colons") from error


def _number(written: str) -> float | int:
    return float(written) if any(c in written for c in ".einf") else int(written)


def _checked(argument: Argument, array: np.ndarray) -> np.ndarray:
    if array.shape != argument.shape or array.dtype != argument.dtype:
        raise InvalidArgument(f"a draw gave {array.dtype}{list(array.shape)}", str(argument))
    return array
