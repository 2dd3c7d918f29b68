"""The record of a timeline: all raw stamps, and where they were taken. Whatever is printed can be computed from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from deep_bench.measure.amounts import Count, Date, WholeNumbers
from deep_bench.measure.environment import Environment
from deep_bench.measure.record import ArrayFile, Model
from deep_bench.training.timeline.codes import Name
from deep_bench.training.timeline.cost import LookingCost


def _codes(value: object) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise ValueError("a list of int expected")
    return array.astype(np.int32)


Codes = Annotated[
    NDArray[np.int32],
    BeforeValidator(_codes),
    PlainSerializer(np.ndarray.tolist, return_type=list),
    WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
]


class ThreadRecord(Model):
    """The events of one thread, ``n`` of them, wherever they lie; see `deep_bench.training.timeline.keeper.Block`."""

    name: str
    ident: int
    n: Count
    codes: Codes
    values: WholeNumbers


class TimelineRecord(Model):
    """One timeline.

    Attributes:
        names: What the codes stand for, in the order of their numbers; see `deep_bench.training.timeline.codes.Names`.
        synchronize: What waited for a device at the ends of regions; None if nothing did.
        asynchronous: What works asynchronously in this process, as far as is known: framework to device.
        warm_up: How many of a phase's first steps are kept apart.
        start_ns: When it began, on the clock of the stamps.
        end_ns: When it ended; None if it did not.
        cost: What looking cost; None if it was not measured, because the run was killed.
        lost: How many events were beyond the limit.
        error: The exception that ended the loop.
        journal: The file beside the record that holds the stamps of a run that did not finish.
        complete: False while the run goes on, and for ever if it was killed.
    """

    kind: Literal["timeline"] = "timeline"
    schema_version: Literal[1] = 1
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    environment: Environment
    names: list[Name] = Field(default_factory=list)
    threads: list[ThreadRecord] = Field(default_factory=list)
    synchronize: str | None = None
    asynchronous: dict[str, str] = Field(default_factory=dict)
    warm_up: int = Field(default=1, ge=0)
    start_ns: int
    end_ns: int | None = None
    cost: LookingCost | None = None
    steal: float | None = None
    load_after: float | None = None
    lost: int = 0
    error: str | None = None
    notes: list[str] = Field(default_factory=list)
    journal: str | None = Field(default=None, pattern=r"^[^/\\]+$")
    arrays: ArrayFile | None = None
    complete: bool = False
