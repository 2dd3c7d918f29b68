"""The asynchronous parameter server, under drawn interleavings that the reference repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.communicator import Received, Request
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.server import Asynchronous
from deep_bench.errors import CommunicationFailed, InvalidArgument, Unsupported
from deep_bench.reference.distributed.server import Asynchronous as Reference
from tests.distributed.schemes.served import Served
from tests.distributed.schemes.small_problem import best_loss, start, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


def make(comm: Any, record: Any, rule: Any = MOMENTUM) -> Asynchronous:
    return Asynchronous(rule, comm, record=record)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_reference_repeats_every_interleaving(ranks: int) -> None:
    interleavings, stale = set(), 0
    for order in (None, *range(12)):
        run = Served(make, ranks, (3, 5), order=order)
        stale = max(stale, *run.check(Reference(MOMENTUM)).staleness)
        interleavings.add(tuple(run.record))
        assert len(run.record) == sum((3, 5)[rank % 2] for rank in range(min(1, ranks - 1), ranks))
    assert stale <= 0 if ranks < 3 else stale >= 2
    assert len(interleavings) == 1 if ranks < 3 else len(interleavings) > 2


def test_a_replayed_order_is_the_same_run() -> None:
    run = Served(make, 4, order=5)
    again = Served(make, 4, order=run.choices)
    assert again.record == run.record
    for name, w in run.ends[0].items():
        np.testing.assert_array_equal(again.ends[3][name], w)


@pytest.mark.parametrize(("framework", "rule"), [("reference", "momentum"), ("torch", "momentum"), ("torch", "torch.sgd")])
def test_frameworks_and_types(framework: str, rule: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    native = db.optimizers[rule](lr=0.1, momentum=0.5)
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-12)):
        run = Served(lambda c, r: make(c, r, native), 3, order=7, framework=framework, dtype=dtype)
        run.check(Reference(MOMENTUM), tolerance)


def test_it_converges() -> None:
    run = Served(lambda c, r: make(c, r, db.optimizers["sgd"](lr=0.05)), 3, (150,), order=1)
    assert whole_loss(run.ends[0]) < best_loss() * 1.1


class _Watched(LocalCommunicator):
    """Ranks of one process that tell of those that are gone."""

    @classmethod
    def of(cls, comm: LocalCommunicator, gone: set[int]) -> _Watched:
        made = cls.__new__(cls)
        vars(made).update(vars(comm))
        made.gone = gone
        made.told = set()
        return made

    gone: set[int]
    told: set[int]

    def irecv(self, out: np.ndarray, source: int = -1, tag: int = 0) -> Request:
        return _WatchedRequest(self, super().irecv(out, source, tag), source)

    def lost(self) -> frozenset[int]:
        self.told |= self.gone
        return frozenset(self.gone)


class _WatchedRequest(Request):
    def __init__(self, comm: _Watched, inner: Any, source: int) -> None:
        self._comm, self._inner, self._source = comm, inner, source

    def test(self) -> bool:
        return bool(self._inner.test())

    def wait(self) -> Received:
        while not self._inner.test():
            if self._comm.gone - self._comm.told if self._source < 0 else self._source in self._comm.gone:
                raise CommunicationFailed(f"ranks {sorted(self._comm.gone)} are gone")
        found = self._inner.wait()
        assert isinstance(found, Received)
        return found


def _vanishing(survive: bool, amid: bool, order: int | None = 0, *, heard_elsewhere: bool = False) -> Any:
    """Three workers, of which the second ends after its first step, or amid its second push."""
    gone: set[int] = set()
    record: list[tuple[int, int]] = []

    def on_rank(plain: LocalCommunicator) -> Any:
        comm = _Watched.of(plain, gone)
        scheme, held = Asynchronous(MOMENTUM, comm, survive=survive, record=record), start()
        if comm.rank == 0:
            told = (lambda *_: comm.lost()) if heard_elsewhere else None
            return scheme.serve(held, NUMPY, after_update=told)[0]
        state = scheme.init(held, NUMPY)
        for step in range(4):
            if comm.rank == 2 and step == 1:
                if amid:
                    comm.send(np.array([0, 0]), 0, 604)
                gone.add(2)
                return None
            held, state = scheme.update({n: w * 0.1 for n, w in held.items()}, state, held, NUMPY)  # type: ignore[assignment]
        return scheme.finish(state, held, NUMPY)[0]

    return run_local(4, on_rank, order=order), record


@pytest.mark.parametrize("amid", [False, True])
def test_workers_that_vanish_are_dropped_where_that_is_asked_for(amid: bool) -> None:
    for order in (None, 0, 1):
        ends, record = _vanishing(True, amid, order)
        assert [worker for worker, _ in record].count(2) == 1
        assert [worker for worker, _ in record].count(1) == [worker for worker, _ in record].count(3) == 4
        for rank in (1, 3):
            np.testing.assert_array_equal(ends[rank]["w"], ends[0]["w"])
    with pytest.raises(CommunicationFailed, match=r"ranks \[2\] are gone"):
        _vanishing(False, amid)


@pytest.mark.parametrize("order", [None, 0, 1])
def test_a_loss_that_somebody_else_has_heard_of_is_no_hang(order: int | None) -> None:
    """MPI tells who waits for any rank once of each that is lost: not again after `lost`, whoever called it."""
    ends, record = _vanishing(True, False, order, heard_elsewhere=True)
    assert [worker for worker, _ in record].count(1) == [worker for worker, _ in record].count(3) == 4
    np.testing.assert_array_equal(ends[1]["w"], ends[0]["w"])


def test_it_goes_on_from_a_state() -> None:
    """The server from its parameters and state, workers from theirs: as in one run."""
    sgd = db.optimizers["adam"](lr=0.1)

    def on_rank(comm: Any, parts: tuple[int, ...]) -> Any:
        held, state = start(), None
        for steps in parts:
            scheme = Asynchronous(sgd, comm)
            if comm.rank == 0:
                held, state = scheme.serve(held, NUMPY, state=state)  # type: ignore[assignment]
                continue
            state = scheme.restored(scheme.init(held, NUMPY) if state is None else state, held)
            for _ in range(steps):
                held, state = scheme.update({n: w * 0.1 for n, w in held.items()}, state, held, NUMPY)  # type: ignore[assignment]
            held, state = scheme.finish(state, held, NUMPY)  # type: ignore[assignment]
        return held, state

    whole, parts = (run_local(2, lambda comm, p=p: on_rank(comm, p)) for p in ((4,), (1, 3)))
    np.testing.assert_array_equal(whole[0][0]["w"], parts[0][0]["w"])
    assert int(parts[0][1]["steps"]) == int(parts[1][1]["version"]) == 4


def test_another_number_of_ranks_goes_on_from_the_server() -> None:
    server = {"steps": np.array(7), "inner": {"steps": np.array(7)}, "clocks": np.array([0, 3, 4])}
    worker = {"steps": np.array(3), "version": np.array(6)}
    found = run_local(4, lambda comm: Asynchronous(MOMENTUM, comm).regrouped([server, worker, worker]))
    assert [int(state["steps"]) for state in found] == [7, 3, 2, 2]
    assert found[0]["clocks"].tolist() == [0, 3, 2, 2]
    assert [int(state["version"]) for state in found[1:]] == [7, 7, 7]
    (alone,) = run_local(1, lambda comm: Asynchronous(MOMENTUM, comm).regrouped([server, worker, worker]))
    assert alone["inner"] == server["inner"]


def test_what_cannot_be_is_refused() -> None:
    def wrong_side(comm: Any) -> None:
        scheme, w = Asynchronous(MOMENTUM, comm), {"w": np.zeros(1)}
        if comm.rank == 0:
            with pytest.raises(InvalidArgument, match="serve"):
                scheme.update(w, scheme.init(w, NUMPY), w, NUMPY)
        else:
            with pytest.raises(InvalidArgument, match="serve on rank 1"):
                scheme.serve(w, NUMPY)

    run_local(2, wrong_side)
    with pytest.raises(InvalidArgument, match="looks ahead"):
        Asynchronous(db.optimizers["accelegrad"](), LocalCommunicator())
    with pytest.raises(InvalidArgument, match="several places"):
        Asynchronous(db.optimizers["lbfgs"](line_search=True), LocalCommunicator())
    with pytest.raises(InvalidArgument, match="asynchronous with survive=1"):
        Asynchronous(MOMENTUM, LocalCommunicator(), survive=1)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="has no server"):
        db.distributed_optimizers["averaging"](MOMENTUM, LocalCommunicator()).serve({}, NUMPY)
