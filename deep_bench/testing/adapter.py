"""What every adapter must do beyond computing right: one small check each.

A check takes an adapter and raises ``AssertionError`` with what it found; `ADAPTER_CHECKS` lists them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported, UnsupportedOperator
from deep_bench.framework import Adapter
from deep_bench.graph import Network

Check = Callable[[Adapter[Any]], None]

OPSET = 21


def small_network(operator: str = "Relu") -> Network:
    """``y = operator(x @ w + b)`` with an open batch; ``w`` is 3 x 2."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="affine"),
        helper.make_node(operator, ["h"], ["y"], name="activation"),
    ]
    w = np.array([[1, -2], [3, 0.5], [-1, 2]], np.float32)
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 2])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(np.array([0.5, -1], np.float32), "b")],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10))


X = np.array([[1, 2, 3], [-1, 0.5, 2]], np.float32)
AFFINE = np.array([[4.5, 4.0], [-1.0, 5.25]], np.float32)
Y = np.array([[4.5, 4.0], [0.0, 5.25]], np.float32)
for _shared in (X, AFFINE, Y):  # an adapter that writes into its inputs must not spoil the checks after it
    _shared.setflags(write=False)


def computes(adapter: Adapter[Any]) -> None:
    """NumPy in, NumPy out, by name."""
    outputs = adapter.prepare(small_network())({"x": X})
    assert list(outputs) == ["y"], f"outputs {list(outputs)} instead of ['y']"
    assert isinstance(outputs["y"], np.ndarray), f"{type(outputs['y'])} instead of a NumPy array"
    np.testing.assert_allclose(outputs["y"], Y, rtol=1e-6)


def keeps_inputs(adapter: Adapter[Any]) -> None:
    """Inputs are not changed, and need be neither contiguous nor writable."""
    wide = np.repeat(X, 2, axis=1)
    view = wide[:, ::2]
    view.flags.writeable = False
    before = view.copy()
    np.testing.assert_allclose(adapter.prepare(small_network())({"x": view})["y"], Y, rtol=1e-6)
    np.testing.assert_array_equal(view, before)


def gives_fresh_outputs(adapter: Adapter[Any]) -> None:
    """What ``forward`` returned stays valid when it is called again."""
    executor = adapter.prepare(small_network())
    first = executor.forward({"x": adapter.from_numpy(X)})
    executor.forward({"x": adapter.from_numpy(-X)})
    adapter.synchronize()
    np.testing.assert_allclose(adapter.to_numpy(first["y"]), Y, rtol=1e-6)


def copies_to_numpy(adapter: Adapter[Any]) -> None:
    """A NumPy copy of a bound call's output is not overwritten by the next call."""
    executor = adapter.prepare(small_network())
    native = adapter.from_numpy(X.copy())
    call = executor.bind({"x": native})
    copies = {name: adapter.to_numpy(array) for name, array in call().items()}
    np.testing.assert_allclose(copies["y"], Y, rtol=1e-6)
    copies["y"][:] = 7
    adapter.synchronize()
    np.testing.assert_allclose(adapter.to_numpy(call()["y"]), Y, rtol=1e-6)
    np.testing.assert_array_equal(copies["y"], np.full_like(Y, 7))


def binds_as_it_runs(adapter: Adapter[Any]) -> None:
    """``bind`` computes what ``forward`` computes, again and again."""
    executor = adapter.prepare(small_network())
    call = executor.bind({"x": adapter.from_numpy(X)})
    for _ in range(3):
        outputs = call()
        adapter.synchronize()
        np.testing.assert_allclose(adapter.to_numpy(outputs["y"]), Y, rtol=1e-6)


def takes_any_batch(adapter: Adapter[Any]) -> None:
    """An open dimension may differ between calls, and may be zero."""
    executor = adapter.prepare(small_network())
    for size in (2, 1, 5, 0):
        x = np.resize(X, (size, 3))
        assert executor({"x": x})["y"].shape == (size, 2), f"wrong shape for a batch of {size}"


def returns_chosen_values(adapter: Adapter[Any]) -> None:
    """``outputs`` may name any value of the outermost graph."""
    outputs = adapter.prepare(small_network(), outputs=["y", "h"])({"x": X})
    assert list(outputs) == ["y", "h"], f"outputs {list(outputs)} instead of ['y', 'h']"
    np.testing.assert_allclose(outputs["h"], AFFINE, rtol=1e-6)
    np.testing.assert_allclose(outputs["y"], Y, rtol=1e-6)


def counts_every_node(adapter: Adapter[Any]) -> None:
    """Each node is native, decomposed or fallback, and is so once."""
    forms = adapter.prepare(small_network()).forms
    counted = sorted([*forms.native, *forms.decomposed, *forms.fallback])
    assert counted == ["activation", "affine"], f"counted {counted}"


def assigns_parameters(adapter: Adapter[Any]) -> None:
    """In train mode a parameter can be read, assigned, and takes effect."""
    executor = adapter.prepare(small_network(), mode="train")
    assert set(executor.parameters) == {"w", "b"}, f"parameters {sorted(executor.parameters)}"
    old = adapter.to_numpy(executor.parameters["w"])
    executor.parameters["w"] = adapter.from_numpy(np.zeros_like(old))
    np.testing.assert_allclose(executor({"x": X})["y"], [[0.5, 0], [0.5, 0]], rtol=1e-6)
    executor.parameters["w"] = adapter.from_numpy(old)
    np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-6)


def refuses_bad_inputs(adapter: Adapter[Any]) -> None:
    """A wrong name, shape or element type, or a missing input, is an `InvalidInput`."""
    executor = adapter.prepare(small_network())
    for bad in ({}, {"z": X}, {"x": X, "z": X}, {"x": X[:, :2]}, {"x": X[0]}, {"x": X.astype(np.float64)}):
        _expect(InvalidInput, lambda bad=bad: executor(bad), f"inputs { ({n: a.shape for n, a in bad.items()}) }")  # type: ignore[misc]


def refuses_unknown_modes(adapter: Adapter[Any]) -> None:
    """A mode that does not exist is an `InvalidArgument`."""
    _expect(InvalidArgument, lambda: adapter.prepare(small_network(), mode="learn"), "mode 'learn'")  # type: ignore[arg-type]


def refuses_unknown_operators(adapter: Adapter[Any]) -> None:
    """An operator that it cannot run is refused in ``prepare``, never ignored."""
    proto = small_network().to_proto()
    proto.graph.node[1].op_type = "NoSuchOperator"
    proto.graph.node[1].domain = "test.unknown"
    proto.opset_import.append(onnx.helper.make_opsetid("test.unknown", 1))
    network = Network.from_proto(proto)
    _expect((UnsupportedOperator, Unsupported), lambda: adapter.prepare(network), "operator NoSuchOperator")


def takes_sequences_or_refuses(adapter: Adapter[Any]) -> None:
    """A sequence is a list of arrays of any shapes, or empty; an adapter without sequences says so in ``prepare``."""
    helper = onnx.helper
    sequence = [helper.make_tensor_sequence_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("xs", "ys")]
    graph = helper.make_graph(
        [helper.make_node("SequenceInsert", ["xs", "x"], ["ys"], name="append")],
        "sequence",
        [sequence[0], helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
        sequence[1:],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    try:
        executor = adapter.prepare(Network.from_proto(model))
    except Unsupported:
        return
    for tensors in ([X[0], X], [], [X]):
        output = executor({"xs": tensors, "x": X[0]})["ys"]
        assert isinstance(output, list), f"{type(output)} instead of a list"
        assert len(output) == len(tensors) + 1, f"{len(output)} tensors instead of {len(tensors) + 1}"
        for got, want in zip(output, [*tensors, X[0]], strict=True):
            np.testing.assert_array_equal(got, want)
    _expect(InvalidInput, lambda: executor({"xs": X, "x": X[0]}), "one array for a sequence")


def describes_itself(adapter: Adapter[Any]) -> None:
    """A report finds the adapter's name, version, device, threads and precision."""
    assert isinstance(adapter.name, str), f"its name is {adapter.name!r} instead of a string"
    assert adapter.name, "its name is empty"
    missing = {"version", "device", "threads", "precision"} - set(adapter.describe())
    assert not missing, f"describe() lacks {sorted(missing)}"


def round_trips_arrays(adapter: Adapter[Any]) -> None:
    """Arrays of every common element type survive the way to the device and back."""
    for dtype in ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"):
        for shape in ((2, 3), (), (0, 4), (1,)):
            array = np.ones(shape, dtype)
            back = adapter.to_numpy(adapter.from_numpy(array))
            assert back.dtype == array.dtype, f"{dtype} came back as {back.dtype}"
            np.testing.assert_array_equal(back, array)


def _expect(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], description: str) -> None:
    try:
        call()
    except kind as error:
        message = str(error).strip()
    else:
        raise AssertionError(f"{description} was accepted")
    assert message, f"{description}: refused without a message"


ADAPTER_CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        assigns_parameters,
        binds_as_it_runs,
        computes,
        copies_to_numpy,
        counts_every_node,
        describes_itself,
        gives_fresh_outputs,
        keeps_inputs,
        refuses_bad_inputs,
        refuses_unknown_modes,
        refuses_unknown_operators,
        returns_chosen_values,
        round_trips_arrays,
        takes_any_batch,
        takes_sequences_or_refuses,
    )
}
"""Name to check."""
