"""A server and its workers on a small problem, and the reference's repetition of what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.arrays import mapped
from deep_bench.distributed.communicators.local import run_local
from tests.distributed.schemes.small_problem import data, loss_and_gradients, start

Make = Callable[[Any, list[tuple[int, int]]], Any]
Arrays = Mapping[str, Any]


class Served:
    """What came of one run.

    Args:
        make: From a communicator and a list for the record to the scheme.
        ranks: How many, the server included.
        steps: How many each worker takes; those of worker ``w`` are ``steps[w % len(steps)]``.
        order: See `run_local`.
        framework: Whose arrays.
        dtype: Their type.

    Attributes:
        ends: The parameters that each rank has in the end.
        record: The interleaving.
        read: For each worker, the parameters after each of its steps.
        versions: The server's after each update.
        choices: Of the threads.
    """

    def __init__(
        self,
        make: Make,
        ranks: int,
        steps: Sequence[int] = (3,),
        *,
        order: Any = None,
        framework: str = "reference",
        dtype: str = "float64",
    ) -> None:
        self.device, self.dtype, self.steps = db.frameworks[framework](), dtype, steps
        self.record: list[tuple[int, int]] = []
        self.read: dict[int, list[Arrays]] = {}
        self.versions: list[Arrays] = []
        self.choices: list[int] = []
        self.ends = run_local(ranks, lambda comm: self._rank(make(comm, self.record)), order=order, choices=self.choices)

    def _rank(self, scheme: Any) -> Arrays:
        comm, xp, to_numpy = scheme.comm, self.device.xp, self.device.to_numpy
        held = mapped(self.device.from_numpy, start(self.dtype))
        if comm.rank == 0 and comm.size > 1:
            end, state = scheme.serve(held, xp, after_update=lambda w, _: self.versions.append(mapped(to_numpy, w)))
            assert int(to_numpy(state["steps"])) == len(self.versions) == int(to_numpy(state["clocks"]).sum())
            return mapped(to_numpy, end)
        state = scheme.init(held, xp)
        self.read[comm.rank] = []
        x, y = data(comm.rank, comm.size)
        for _ in range(self.steps[comm.rank % len(self.steps)]):
            slopes = loss_and_gradients(mapped(to_numpy, scheme.prepare(held, state)), x, y)[1]
            held, state = scheme.update(mapped(self.device.from_numpy, slopes), state, held, xp, samples=len(x))
            self.read[comm.rank].append(mapped(to_numpy, held))
        return mapped(to_numpy, scheme.finish(state, held, xp)[0])

    def check(self, reference: Any, tolerance: float = 1e-12) -> Any:
        """Whether the reference comes to the same by the recorded interleaving; returns what it found."""
        size = len(self.ends)

        def gradients_of(worker: int, parameters: Arrays, count: int) -> Any:
            before = self.read[worker][count - 1] if count else start(self.dtype)
            _check_same(before, parameters, tolerance)
            return loss_and_gradients(parameters, *data(worker, size))[1]

        course = reference.run(self.record, gradients_of, start(self.dtype))
        for version, wanted in zip(self.versions, course.versions[1:], strict=size > 1):
            _check_same(version, wanted, tolerance)
        for end in self.ends:
            _check_same(end, course.versions[-1], tolerance)
        return course


def _check_same(found: Arrays, wanted: Arrays, tolerance: float) -> None:
    assert list(found) == list(wanted)
    for name in wanted:
        assert found[name].dtype == wanted[name].dtype
        np.testing.assert_allclose(found[name], wanted[name], rtol=tolerance, atol=tolerance)
