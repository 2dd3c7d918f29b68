"""``allreduce``: one process with the whole batch, on several ranks; and its messages while gradients are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.averaged import AllReduce
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.compose import chain, clip_norm
from deep_bench.training.optimizer import Optimizer
from tests.distributed.launched import launched
from tests.distributed.schemes.equivalence import EVEN, PARTS, alone, check_equivalent, on_ranks

RULES: dict[str, Any] = {
    "adam": db.optimizers["adam"](lr=0.05),
    "clipped": chain(clip_norm(0.05), db.optimizers["momentum"](lr=0.5)),
    "accelegrad": db.optimizers["accelegrad"](),
}


@pytest.mark.parametrize("ranks", PARTS)
@pytest.mark.parametrize("name", RULES)
def test_it_is_one_process_with_the_whole_batch(name: str, ranks: int) -> None:
    check_equivalent(on_ranks(lambda comm: AllReduce(RULES[name], comm, bucket=64), ranks), alone(RULES[name]))
    if name == "adam":
        check_equivalent(on_ranks(lambda comm: AllReduce(RULES[name], comm), ranks, parts=EVEN), alone(RULES[name]))


@pytest.mark.long
@pytest.mark.parametrize("ranks", PARTS)
@pytest.mark.parametrize(("framework", "native"), [("tensorflow", None), ("torch", None), ("torch", "torch.adam")])
def test_it_is_with_the_arrays_and_rules_of_frameworks(framework: str, native: str | None, ranks: int) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    rule = RULES["adam"] if native is None else db.optimizers[native](lr=0.05)
    check_equivalent(on_ranks(lambda comm: AllReduce(rule, comm), ranks, framework), alone(RULES["adam"]))


@pytest.mark.long
def test_it_is_with_keras() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    settings = {"beta1": 0.875, "beta2": 1 - 2.0**-10, "epsilon": 2.0**-25, "epsilon_beside": "raw"}
    keras = db.optimizers["tensorflow.adam"](lr=2.0**-5, beta_1=0.875, beta_2=1 - 2.0**-10, epsilon=2.0**-25)
    found = on_ranks(lambda comm: AllReduce(keras, comm), 2, "tensorflow")
    check_equivalent(found, alone(db.optimizers["adam"](lr=2.0**-5, **settings)))


def test_a_line_search_sees_the_loss_of_all_ranks() -> None:
    rule = db.optimizers["lbfgs"](lr=0.5, history=3, line_search=True)
    wanted = alone(rule, 4)
    for ranks in (1, 3):
        check_equivalent(on_ranks(lambda comm: AllReduce(rule, comm), ranks, steps=4), wanted, (1, 4))


def test_a_closure_of_torch_sees_the_gradients_of_all_ranks() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    settings = {"history_size": 3, "tolerance_grad": 0, "tolerance_change": 0}
    one = db.optimizers["torch.lbfgs"](lr=0.25, max_iter=1, **settings)
    wanted = alone(db.optimizers["lbfgs"](lr=0.25, history=3), 6)
    check_equivalent(on_ranks(lambda comm: AllReduce(one, comm), 3, "torch", steps=6), wanted, (1, 6))
    more = db.optimizers["torch.lbfgs"](lr=0.25, max_iter=3, line_search_fn="strong_wolfe", **settings)
    found = [on_ranks(lambda comm: AllReduce(more, comm), ranks, "torch", steps=1)[0][0] for ranks in (1, 3)]
    for name, x in found[0].items():
        np.testing.assert_allclose(found[1][name], x, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class Follows(Optimizer):
    """Its parameters are the gradients."""

    def init(self, parameters: Any, xp: Any) -> Any:
        return {}

    def update(self, gradients: Any, state: Any, parameters: Any, xp: Any, *, evaluate: Any = None) -> Any:
        return dict(gradients), state


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_gradients_are_summed_in_a_wider_type_on_request(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(500).astype(dtype) for _ in range(4)]
    exact = sum(np.float64(g) * n for g, n in zip(given, PARTS[4], strict=True)) / sum(PARTS[4])

    def on_rank(comm: Any, sum_in: str | None) -> np.ndarray:
        rule = AllReduce(Follows(), comm, sum_in=sum_in)
        w = {"w": np.zeros(500, dtype)}
        new = rule.update({"w": given[comm.rank]}, rule.init(w, NUMPY), w, NUMPY, samples=PARTS[4][comm.rank])[0]["w"]
        assert new.dtype == dtype
        return np.float64(new)

    def error(x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((x - exact) ** 2)))

    wide, narrow = (run_local(4, lambda comm, sum_in=s: on_rank(comm, sum_in))[0] for s in ("float32", None))
    once = np.float64(np.float32(exact).astype(dtype))
    assert error(wide) < 1.001 * error(once)  # float32 may break a tie
    assert error(narrow) > 1.2 * error(once)


def test_samples_that_do_not_add_up_are_refused() -> None:
    def on_rank(comm: Any, begun: int | None, samples: int | None) -> None:
        rule = AllReduce(db.optimizers["sgd"](lr=1.0), comm)
        w = {"w": np.zeros(2)}
        state = rule.init(w, NUMPY)
        if begun is not None:
            rule.begin(begun)
        rule.update(w, state, w, NUMPY, samples=samples)

    for begun, samples, text in ((3, 4, "as begin"), (None, 0, "no rank has samples"), (-1, None, "-1 samples")):
        with pytest.raises(InvalidArgument, match=text):
            run_local(2, lambda comm, b=begun, s=samples: on_rank(comm, b, s))


def test_a_rank_without_samples_counts_for_nothing() -> None:
    def on_rank(comm: Any) -> list[float]:
        rule = AllReduce(db.optimizers["sgd"](lr=1.0), comm)
        w = {"w": np.zeros(1)}
        g = {"w": np.full(1, np.nan if comm.rank else 2.0)}  # the mean over no samples
        rule.begin(9)  # of a step that is not taken
        rule.begin(0 if comm.rank else 5)
        return rule.update(g, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()

    assert run_local(2, on_rank) == [[-2.0], [-2.0]]


class Threads:
    """One rank that notes what is summed, and may be called by several threads."""

    def __init__(self) -> None:
        self.sums: list[list[float]] = []
        self.comm: Any = LocalCommunicator()
        self.comm.threads = True
        self.comm.split = lambda color, key=0: self.comm
        self.comm.allreduce = self._noted

    def _noted(self, x: np.ndarray, op: str = "sum", out: np.ndarray | None = None) -> np.ndarray:
        if x.dtype != np.int64:
            self.sums.append(x.tolist())
        return x


def gradients(*values: float) -> dict[str, np.ndarray]:
    return {name: np.full(1, float(value)) for name, value in zip("abc", values, strict=True)}


def test_buckets_are_sent_in_order_as_soon_as_they_are_complete() -> None:
    ranks = Threads()
    rule = AllReduce(db.optimizers["sgd"](lr=1.0), ranks.comm, bucket=16, overlap=True, overlap_from=0)
    w = gradients(0, 0, 0)
    state = rule.init(w, NUMPY)
    for step in range(3):
        told = rule.begin(4)
        given = gradients(step, 2, 3)
        assert told is not None
        for name in ("a", "c", "b"):  # a is the second bucket, and is there first
            told(name, given[name])
        new, state = rule.update(given, state, w, NUMPY, samples=4)
        assert {name: x.item() for name, x in new.items()} == {"a": -step, "b": -2, "c": -3}
        assert ranks.sums[-2:] == [[3.0, 2.0], [float(step)]]
        assert rule.exposed_ns is not None
    told = rule.begin(4)
    assert told is not None
    told("b", w["b"])
    told("c", w["c"])  # a bucket is sent, and the step is not taken
    told = rule.begin(4)
    assert told is not None
    told("c", w["c"])
    with pytest.raises(InvalidArgument, match="'c' twice"):
        told("c", w["c"])
    with pytest.raises(InvalidArgument, match="no gradient of a, b"):
        rule.update(w, state, w, NUMPY)


def test_what_fails_in_the_thread_is_raised_in_the_step() -> None:
    ranks = Threads()
    rule = AllReduce(db.optimizers["sgd"](lr=1.0), ranks.comm, overlap=True, overlap_from=0)
    w = gradients(1, 2, 3)
    state = rule.init(w, NUMPY)
    told = rule.begin(1)
    assert told is not None

    def broken(*_: Any, **__: Any) -> None:
        raise ConnectionError("the other rank is gone")

    ranks.comm.allreduce = broken
    for name, g in w.items():
        told(name, g)
    with pytest.raises(ConnectionError, match="gone"):
        rule.update(w, state, w, NUMPY)


def test_there_is_no_overlap_where_it_does_not_pay_or_cannot_be() -> None:
    rule = AllReduce(db.optimizers["sgd"](lr=1.0), Threads().comm, overlap=True)
    w = gradients(1, 2, 3)
    rule.init(w, NUMPY)
    assert rule.begin(1) is None
    with pytest.raises(Unsupported, match="which only one thread may call"):
        AllReduce(db.optimizers["sgd"](lr=1.0), LocalCommunicator(), overlap=True)


def test_the_state_and_its_restoring_are_the_inner_rules() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    xp, w = db.frameworks["torch"]().xp, {"w": torch.ones(2)}
    rule = AllReduce(db.optimizers["torch.adam"](), LocalCommunicator())
    state = rule.restored({**rule.init(w, xp)}, w)
    assert (rule.framework, rule.in_place, rule.separable) == ("torch", True, False)
    assert rule.update({"w": torch.ones(2)}, state, w, xp)[0]["w"] is w["w"]
    assert (
        repr(rule) == f"AllReduce(inner={rule.inner!r}, bucket=26214400, overlap=False, overlap_from=4194304, sum_in=None)"
    )
    assert not AllReduce(db.optimizers["adam"](), LocalCommunicator()).in_place
    ahead = AllReduce(chain(clip_norm(1.0), db.optimizers["accelegrad"]()), LocalCommunicator())
    assert (ahead.looks_ahead, rule.looks_ahead) == (True, False)


@pytest.mark.long
def test_all_schemes_over_mpi() -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    done = launched(2, "tests.distributed.schemes.over_mpi")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all fine" in done.stdout
