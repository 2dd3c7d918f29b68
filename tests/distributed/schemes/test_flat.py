"""Layouts, buffers, and memory that nobody overwrites while somebody has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.flat import Buffers, FlatLayout, Pool
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.optimizer import Optimizer

FRAMEWORKS = ("reference", "tensorflow", "torch")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SHAPES: dict[str, tuple[tuple[int, ...], Any]] = {
    "w": ((2, 3), np.float32),
    "half": ((4,), np.float16),
    "scalar": ((), np.float32),
    "brain": ((3, 1), BFLOAT16),
    "empty": ((0, 2), np.float32),
    "wide": ((5,), np.float64),
}


def drawn(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(shape)).astype(dtype) for name, (shape, dtype) in SHAPES.items()}


def device_of(framework: str) -> Any:
    if framework != "reference":
        pytest.importorskip(framework, reason=f"{framework} is not installed")
    return db.frameworks[framework]()


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert list(a) == list(b)
    for name, x in a.items():
        assert x.dtype == b[name].dtype
        np.testing.assert_array_equal(x, b[name])


def test_a_layout_has_the_last_parameters_first_and_a_buffer_for_each_type() -> None:
    layout = FlatLayout.of(drawn(), NUMPY)
    assert list(layout.places) == list(reversed(SHAPES))
    assert layout.dtypes == (np.float64, np.float32, BFLOAT16, np.float16)
    assert layout.sizes == (5, 7, 3, 4)
    assert [(p.flat, p.start, p.stop) for p in layout.places.values()] == [
        (0, 0, 5), (1, 0, 0), (2, 0, 3), (1, 0, 1), (3, 0, 4), (1, 1, 7),
    ]  # fmt: skip
    assert layout.nbytes == 5 * 8 + 7 * 4 + 3 * 2 + 4 * 2
    summed = FlatLayout.of(drawn(), NUMPY, at_least=np.dtype(np.float32))
    assert (summed.dtypes, summed.sizes) == ((np.float64, np.float32), (5, 14))


@pytest.mark.parametrize(("limit", "names"), [
    (None, [("e", "d", "c", "b", "a")]),
    (1, [("e",), ("d",), ("c",), ("b",), ("a",)]),
    (16, [("e", "d"), ("c",), ("b", "a")]),
    (80, [("e", "d", "c"), ("b", "a")]),
])  # fmt: skip
def test_buckets_are_whole_parameters_of_at_most_so_many_bytes(limit: int | None, names: list[tuple[str, ...]]) -> None:
    sizes = {"a": 1, "b": 3, "c": 16, "d": 2, "e": 2}
    layout = FlatLayout.of({name: np.zeros(size, np.float32) for name, size in sizes.items()}, NUMPY)
    buckets = layout.buckets(limit)
    assert [bucket.names for bucket in buckets] == names
    assert [bucket.start for bucket in buckets] == [0, *(bucket.stop for bucket in buckets[:-1])]
    assert buckets[-1].stop == 24


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_packed_comes_out_again(framework: str) -> None:
    device = device_of(framework)
    arrays = {name: device.from_numpy(x) for name, x in drawn().items()}
    for pool in (Pool[Any](), Pool[Any](at_least=np.dtype(np.float32))):
        buffers = pool.packed(arrays, device.xp)
        same({name: device.to_numpy(x) for name, x in buffers.native(device.xp).items()}, drawn())
        halves = {name: (x * np.asarray(0.5, x.dtype)).astype(x.dtype) for name, x in drawn().items()}
        halved = pool.packed(arrays, device.xp, 0.5)
        same({name: device.to_numpy(x) for name, x in halved.native(device.xp).items()}, halves)
        assert all(flat.ctypes.data % 64 == 0 for flat in buffers.flats)


def test_narrow_numbers_are_weighted_in_the_type_they_are_summed_in() -> None:
    pool = Pool[Any](at_least=np.dtype(np.float32))
    buffers = pool.packed({"x": np.float16([1, 3])}, NUMPY, 1 / 3)
    np.testing.assert_array_equal(buffers.flats[0], np.float32([1, 3]) * np.float32(1 / 3))


def test_what_does_not_fit_is_refused() -> None:
    buffers = Buffers(FlatLayout.of({"w": np.ones((2, 3)), "n": np.ones(2, np.int64)}, NUMPY))
    with pytest.raises(InvalidArgument, match=r"'w' of shape \[3\]"):
        buffers.put("w", np.ones(3))
    with pytest.raises(InvalidArgument, match=r"int64 times 0\.5"):
        buffers.put("n", np.ones(2, np.int64), 0.5)
    buffers.put("w", np.full((2, 3), np.nan), 0)
    np.testing.assert_array_equal(buffers.parts["w"], np.zeros((2, 3)))
    with pytest.raises(InvalidArgument, match="prepare"):
        Pool[Any]().take()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_buffers_are_used_again_only_when_nobody_has_their_memory(framework: str) -> None:
    device = device_of(framework)
    arrays = {name: device.from_numpy(x) for name, x in drawn().items()}
    pool = Pool[Any]()
    first = pool.packed(arrays, device.xp)
    address = first.flats[1].ctypes.data
    assert pool.take() is not first  # it is in a variable here, though no array of it is
    kept: Any = first.native(device.xp)
    del first
    look = {
        "array": lambda: kept["w"],
        "part": lambda: kept["w"][1:],
        "another view": lambda: device.xp.transpose(kept["w"]),
    }
    for view in [one() for one in look.values()]:
        held, before = view, np.array(device.to_numpy(view))
        kept = None
        for seed in range(1, 4):
            pool.packed({name: device.from_numpy(x) for name, x in drawn(seed).items()}, device.xp).native(device.xp)
        np.testing.assert_array_equal(device.to_numpy(held), before)
    del held, view
    assert address in {pool.packed(arrays, device.xp).flats[1].ctypes.data for _ in range(3)}
    assert len(pool._made) <= 4


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_memory_of_a_message_under_way_is_in_use(framework: str) -> None:
    device = device_of(framework)
    arrays = {"w": device.from_numpy(np.ones(3))}
    pool = Pool[Any]()
    buffers = pool.packed(arrays, device.xp)
    assert buffers.idle
    sent = buffers.part(pool.buckets[0])
    assert not buffers.idle
    del sent
    assert buffers.idle


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_native_memory_is_looked_at_shared_and_written(framework: str) -> None:
    device = device_of(framework)
    xp, given = device.xp, drawn()
    for name, x in given.items():
        native = device.from_numpy(x)
        np.testing.assert_array_equal(xp.host(native), x)
        assert xp.host(native).dtype == x.dtype
        np.testing.assert_array_equal(device.to_numpy(xp.adopt(x.copy())), x)
        assert xp.dtype(xp.adopt(x.copy())) == x.dtype, name
    matrix = xp.transpose(device.from_numpy(given["w"]))
    np.testing.assert_array_equal(xp.host(matrix), given["w"].T)
    locked = given["w"].copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(device.to_numpy(xp.adopt(locked)), locked)
    target = device.from_numpy(given["w"].copy())
    if framework == "tensorflow":
        with pytest.raises(Unsupported, match="TensorFlow's tensors"):
            xp.write(target, given["w"] + 1)
    else:
        xp.write(target, given["w"] + 1)
        np.testing.assert_array_equal(device.to_numpy(target), given["w"] + 1)


def test_torch_shares_memory_and_leaves_are_looked_at_and_written() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    xp = db.frameworks["torch"]().xp
    for dtype in (np.float32, BFLOAT16):
        array = np.ones((2, 2), dtype)
        assert xp.adopt(array).data_ptr() == array.ctypes.data
        assert np.shares_memory(xp.host(xp.adopt(array)), array)
    leaf = torch.nn.Parameter(torch.ones(3))
    assert np.shares_memory(xp.host(leaf), leaf.detach().numpy())
    xp.write(leaf, np.float32([1, 2, 3]))
    assert leaf.requires_grad
    assert leaf.tolist() == [1, 2, 3]


def test_a_graph_has_no_memory() -> None:
    @dataclass(frozen=True)
    class Looks(Optimizer):
        def init(self, parameters: Any, xp: Any) -> Any:
            return {}

        def update(self, gradients: Any, state: Any, parameters: Any, xp: Any, *, evaluate: Any = None) -> Any:
            return {name: xp.adopt(xp.host(g)) for name, g in gradients.items()}, state

    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    with pytest.raises(Unsupported, match="while the rule is traced"):
        db.network.training_step(network, optimizer=Looks())


@dataclass(frozen=True)
class Keeps(Optimizer):
    """A rule whose state is the gradients of all steps, as they were given."""

    def init(self, parameters: Any, xp: Any) -> Any:
        return {}

    def update(self, gradients: Any, state: Any, parameters: Any, xp: Any, *, evaluate: Any = None) -> Any:
        return dict(parameters), {**state, str(len(state)): dict(gradients)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scheme", ["allreduce", "hierarchical", "parameter-server"])
def test_gradients_in_a_state_stay_what_they_were(scheme: str, framework: str) -> None:
    device = device_of(framework)
    rule = db.distributed_optimizers[scheme](Keeps(), LocalCommunicator())
    held = {name: device.from_numpy(x) for name, x in drawn().items()}
    state = rule.init(held, device.xp)
    for step in range(6):
        given = {name: device.from_numpy(x) for name, x in drawn(step).items()}
        held, state = rule.update(given, state, held, device.xp)
    for step in range(6):
        same({name: device.to_numpy(x) for name, x in state[str(step)].items()}, drawn(step))
