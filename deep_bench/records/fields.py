"""What records are made of: numbers that a record may hold (times, counts, shares, dates), refused where nobody can have
measured them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

LONGEST_NS = 2**60
"""36 years: a larger number is no time, but bits that meant something else."""


MOMENTS = "begin on "
"""Quantities of such a name are moments, counted from the first of their block; all others are durations."""


def row_of(dtype: type[np.generic], kinds: str, items: str) -> Callable[[Any], NDArray[Any]]:
    """What makes a row of one NumPy type, and refuses what is none.

    Args:
        dtype: Its type.
        kinds: The kinds of NumPy types that it is made from.
        items: What they are, for the message.

    Example:
        >>> row_of(np.bool_, "b", "true and false")([1])
        Traceback (most recent call last):
            ...
        ValueError: a list of true and false expected
    """

    def check(value: Any) -> NDArray[Any]:
        array = np.asarray(value)
        if array.ndim != 1 or (array.size and array.dtype.kind not in kinds):
            raise ValueError(f"a list of {items} expected")
        return array.astype(dtype)

    return check


def listed(
    check: Callable[[Any], NDArray[Any]], items: dict[str, Any], write: Callable[[Any], list[Any]] = np.ndarray.tolist
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """The annotations of a field that holds a row: how it is checked and written, and its schema.

    Args:
        check: Makes the row of what was read.
        items: The schema of an element.
        write: Makes a list of the row.
    """
    schema = WithJsonSchema({"type": "array", "items": items})
    return BeforeValidator(check), PlainSerializer(write, return_type=list), schema


_whole_numbers = row_of(np.int64, "iu", "whole numbers")


def nanoseconds(value: Any, least: int = 0) -> NDArray[np.int64]:
    """A row of whole numbers that can be times.

    Args:
        value: Any.
        least: The smallest that may be.

    Raises:
        ValueError: It is none; the message names the first number that is no time.

    Example:
        >>> nanoseconds([3, 5]).tolist()
        [3, 5]
        >>> nanoseconds([3, -5])
        Traceback (most recent call last):
            ...
        ValueError: number 1 is -5: a whole number from 0 to 2^60 expected
    """
    array = _whole_numbers(value)
    wrong = np.flatnonzero((array < least) | (array > LONGEST_NS))
    if len(wrong):
        raise ValueError(f"number {wrong[0]} is {np.asarray(value)[wrong[0]]}: a whole number from {least} to 2^60 expected")
    return array


Flags = Annotated[NDArray[np.bool_], *listed(row_of(np.bool_, "b", "true and false"), {"type": "boolean"})]
WholeNumbers = Annotated[NDArray[np.int64], *listed(_whole_numbers, {"type": "integer"})]
Nanoseconds = Annotated[NDArray[np.int64], *listed(nanoseconds, {"type": "integer", "minimum": 0, "maximum": LONGEST_NS})]
"""Durations, moments and counts."""


Time = Annotated[int, Field(ge=0, le=LONGEST_NS)]
"""One of them, in nanoseconds."""


Count = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

Bits = Annotated[float, Field(ge=-2_200, le=128, allow_inf_nan=False)]
"""Significant bits: a double is off by at most the ratio of the largest to the smallest, 2^2098; none has more than 128."""


_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)


def date(value: datetime) -> datetime:
    """A date that the clock of a computer can have shown, even of one that was never set.

    Raises:
        ValueError: It is none.

    Example:
        >>> date(datetime(1, 1, 1))
        Traceback (most recent call last):
            ...
        ValueError: 0001-01-01 is no date of a run: one from 1970 to 2261 expected
    """
    if not _FIRST <= (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) < _LAST:
        raise ValueError(f"{value.date()} is no date of a run: one from 1970 to 2261 expected")
    return value


Date = Annotated[datetime, AfterValidator(date)]
"""When a run began."""


class RecordModel(BaseModel):
    """What all parts of a record share: unknown fields are refused, and NaN and infinity are written as strings."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, ser_json_inf_nan="strings")
