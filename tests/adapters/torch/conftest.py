"""What the tests of the torch adapter share: networks of one node, and threads that leave the machine to others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from deep_bench.graph import Network

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _tensor_type(array: np.ndarray) -> int:
    return onnx.TensorProto.STRING if array.dtype == object else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def _one_node(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    *,
    outputs: Sequence[int] = (onnx.TensorProto.FLOAT,),
    fixed: Sequence[int] = (),
    open_shapes: bool = False,
) -> tuple[Network, dict[str, np.ndarray]]:
    """A network of one node, and what to feed: the inputs at ``fixed`` are initializers."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    fed = {n: a for i, (n, a) in enumerate(zip(names, inputs, strict=True)) if a is not None and i not in fixed}
    shape = lambda n, a: [f"{n}{i}" for i in range(a.ndim)] if open_shapes else a.shape  # noqa: E731
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, names, [f"y{i}" for i in range(len(outputs))], name="only", **attributes)],
        "one",
        [onnx.helper.make_tensor_value_info(n, _tensor_type(a), shape(n, a)) for n, a in fed.items()],
        [onnx.helper.make_tensor_value_info(f"y{i}", code, None) for i, code in enumerate(outputs)],
        [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in fixed],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 28)], ir_version=13)
    return Network.from_proto(model), fed


@pytest.fixture
def one_node() -> Callable[..., tuple[Network, dict[str, np.ndarray]]]:
    """The function that builds a network of one node."""
    return _one_node


@pytest.fixture
def run_node() -> Callable[..., list[np.ndarray]]:
    """A function that runs one node on torch and returns its outputs."""
    from deep_bench.adapters.torch import TorchAdapter

    def run(operator: str, *inputs: np.ndarray | None, options: Mapping[str, Any] | None = None, **rest: Any) -> Any:
        settings = {k: rest.pop(k) for k in ("outputs", "fixed", "open_shapes") if k in rest}
        network, fed = _one_node(operator, inputs, rest, **settings)
        return list(TorchAdapter(**(options or {})).prepare(network)(fed).values())

    return run


@pytest.fixture(params=["fed", "fixed", "open"])
def agrees(request) -> Callable[..., None]:
    """A function that compares torch's native code for one node with the reference: inputs fed, fixed, or of open shape."""
    from deep_bench.adapters.torch import TorchAdapter
    from deep_bench.reference.network import ReferenceAdapter

    def check(operator: str, *inputs: np.ndarray | None, outputs: Sequence[int], rtol: float = 0, **attributes: Any) -> None:
        given = [i for i, a in enumerate(inputs) if a is not None]
        fixed = given[1:] if request.param == "fixed" else ()
        network, fed = _one_node(
            operator, inputs, attributes, outputs=outputs, fixed=fixed, open_shapes=request.param == "open"
        )
        executor, reference = (adapter.prepare(network) for adapter in (TorchAdapter(), ReferenceAdapter()))
        assert not executor.forms.fallback
        ours, wanted = executor(fed), reference(fed)
        for name, array in wanted.items():
            assert ours[name].dtype == array.dtype
            assert ours[name].shape == array.shape
            np.testing.assert_allclose(
                ours[name].astype(np.float64) if rtol else ours[name], array, rtol=rtol, atol=rtol * 0.1
            )

    return check
