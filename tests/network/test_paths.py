"""Every function of ``db.network`` that takes a network takes its file too, and refuses anything else by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.network import transform

TEXT = """<ir_version: 10, opset_import: ["": 21]>
small (float[4, 2, 3, 3] image) => (float loss, float[4, 2, 3, 3] y) <float[1] w = {2}, float[1] v = {3}> {
    u = Mul(w, v)
    z = Mul(image, u)
    y = Conv<kernel_shape = [1, 1]>(z, k)
    loss = ReduceSum<keepdims = 0>(y)
}"""
COSTS = {size: transform.Cost(seconds=1e-5 * size, nbytes=size * 100) for size in (1, 2, 4)}


def small() -> db.Network:
    proto = onnx.parser.parse_model(TEXT)
    kernel = np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "k"))
    for node in proto.graph.node:
        node.name = node.output[0]
    return db.Network.from_proto(proto, name="small")


IMAGE = {"image": np.ones((4, 2, 3, 3), np.float32)}


def small_enough(network: db.Network, inputs: Any) -> bool:
    """A predicate that every network satisfies."""
    return True


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "differentiate": db.network.differentiate,
    "training_step": db.network.training_step,
    "compare": lambda n: db.network.compare(["reference", ("reference", n)], IMAGE, network=n, check="off", budget=0),
    "profile": lambda n: db.network.profile(n, ["reference"], repeat=2, in_process=True),
    "diverge": lambda n: db.network.diverge(n, "reference"),
    "reduce": lambda n: db.network.reduce(n, IMAGE, small_enough, budget=0.1),
    "fold": transform.fold,
    "fuse_batchnorm": transform.fuse_batchnorm,
    "precision": transform.precision,
    "beyond_range": transform.beyond_range,
    "batch": lambda n: transform.batch(n, 2, verify=False),
    "through_batch": lambda n: transform.through_batch(n, 4)(small_outputs, IMAGE),
    "layout": transform.layout,
    "through_layout": transform.through_layout,
    "extract": lambda n: transform.extract(n, ["z"], ["y"]),
    "cuts": lambda n: transform.cuts(n, 2),
    "micro_batch": lambda n: transform.micro_batch(n, 250, {"y": COSTS}),
    "measure_pieces": lambda n: transform.measure_pieces(n, ["y"], on="reference", sizes=[4], calls=1),
    "replace": lambda n: transform.replace(n, "Conv", lambda tape, found: tape.Conv(*found.inputs)),
    "check": lambda n: transform.check(n, n, IMAGE),
}


def small_outputs(inputs: Any) -> Any:
    return db.frameworks["reference"]().prepare(small())(inputs)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("networks") / "small.onnx"
    small().save(file)
    return file


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_network_a_path_and_a_string_do_the_same(name: str, file: Path) -> None:
    found = [FUNCTIONS[name](given) for given in (small(), file, str(file))]
    assert len({type(one) for one in found}) == 1
    if isinstance(found[0], db.Network):
        protos = [one.to_proto() for one in found]
        assert len({proto.graph.SerializeToString(deterministic=True) for proto in protos}) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_network_is_refused_by_name(name: str, file: Path) -> None:
    for given in (small().to_proto(), 3, None, b"small.onnx"):
        if given is None and name == "compare":
            continue  # it needs no network
        with pytest.raises(InvalidArgument, match=f"a {type(given).__name__} as a network"):
            FUNCTIONS[name](given)
    with pytest.raises(InvalidNetwork, match=r"there is no file .*nowhere\.onnx"):
        FUNCTIONS[name](file.parent / "nowhere.onnx")


def test_the_list_is_complete() -> None:
    """All public functions whose first parameter is a network."""
    import inspect

    networks, slow = {"network", "before"}, {"chosen_algorithms"}  # the latter starts a process, and has a test of its own
    for module, others in ((db.network, {"transform"}), (transform, set())):
        for name in module.__all__:
            thing = getattr(module, name)
            if name not in others and inspect.isfunction(thing):
                first = next(iter(inspect.signature(thing).parameters), "")
                assert name in FUNCTIONS or name in slow or first not in networks, name
