"""A reduced network as files that can be attached to a bug report."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.measure.folder import output_folder
from deep_bench.network.apart import code_of
from deep_bench.network.reduction import scripts
from deep_bench.network.reduction.predicates import Slower, Wrong
from deep_bench.tensor import is_float
from deep_bench.variant import Variant

if TYPE_CHECKING:
    from deep_bench.network.reduction.reduced import Reduced


FILES = ("actual.npz", "expected.npz", "inputs.npz", "model.onnx", "model.onnx.data", "reproduce.py")
"""All that a reduction ever writes."""


def save(reduced: Reduced, folder: str | Path) -> list[str]:
    """See `Reduced.write`: all is written to a folder of its own inside, then moved, and what is stale is removed."""
    target = output_folder(folder)
    with tempfile.TemporaryDirectory(dir=target, prefix=".", suffix=".part") as temporary:
        _write(reduced, Path(temporary))
        written = sorted(file.name for file in Path(temporary).iterdir())
        for name in written:
            os.replace(Path(temporary) / name, target / name)
    for name in set(FILES) - set(written):
        (target / name).unlink(missing_ok=True)
    return written


def _write(reduced: Reduced, target: Path) -> None:
    predicate: Any = reduced.predicate
    network, inputs, expected = reduced.network, reduced.inputs, reduced.expected
    if isinstance(predicate, Wrong):
        shown = predicate.evidence(network, inputs)
        network, inputs, expected = shown.network, shown.inputs, shown.expected
        write_arrays(target / "actual.npz", shown.actual)
    stored, fed = _storable(network, inputs)
    stored.save(target / "model.onnx")
    write_arrays(target / "inputs.npz", fed)
    write_arrays(target / "expected.npz", expected)
    (target / "reproduce.py").write_text(_script(predicate, stored, fed, compared=bool(expected)), encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under any names as an ``.npz`` file; element types that NumPy does not know as float32."""
    plain = {name: _plain(np.asarray(array)) for name, array in arrays.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return array.astype(str)
    return array.astype(np.float32) if array.dtype.kind == "V" or _foreign(array) else array


def _foreign(array: np.ndarray) -> bool:
    """Whether an element type is none of NumPy's own, which a file of NumPy's does not keep."""
    return array.dtype.type.__module__ != "numpy"


def _storable(network: Network, inputs: Mapping[str, np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """The network with inputs that a file of NumPy's does not keep made weights of it."""
    foreign = {name: array for name, array in inputs.items() if _foreign(array) and array.dtype != object}
    if not foreign:
        return network, dict(inputs)
    changed = network.copy()
    graph = changed.graph
    for value in [v for v in graph.inputs if v.name in foreign]:
        value.const_value = ir.tensor(foreign[str(value.name)], name=value.name)
        graph.inputs.remove(value)
        graph.initializers[str(value.name)] = value
    return Network(changed.model, name=network.name), {n: a for n, a in inputs.items() if n not in foreign}


def _script(predicate: Any, network: Network, inputs: Mapping[str, np.ndarray], *, compared: bool) -> str:
    system = str(getattr(predicate, "system", ""))
    framework, options = _variant(system)
    description = str(getattr(predicate, "description", "what the predicate asked for"))
    graph, named = _graph(network, inputs), system or "the framework"
    if isinstance(predicate, Wrong) and predicate.gradients:
        return scripts.gradients(what=description, system=named, graph=graph)
    if framework == "onnxruntime":
        timed = isinstance(predicate, Slower)
        return scripts.onnxruntime(what=description, graph=graph, options=options, timed=timed, compared=compared)
    if isinstance(predicate, Wrong):
        return scripts.compared(what=description, system=named, graph=graph, code=_code(predicate, network))
    return scripts.stated(what=description, system=named, graph=graph, failure=str(getattr(predicate, "failure", "")))


def _variant(system: str) -> tuple[str, Mapping[str, str]]:
    try:
        variant = Variant.parse(system)
    except DeepBenchError:  # the name of somebody's own adapter
        return system, {}
    return variant.framework, variant.options


def _code(predicate: Wrong, network: Network) -> str:
    """The framework's own code that the network was turned into, where the executor shows it."""
    return code_of(predicate.adapter.prepare(network))


def _graph(network: Network, inputs: Mapping[str, np.ndarray]) -> str:
    """The network as a person reads it: one line for each input, weight and node."""
    lines = [f"{name}: {a.dtype}{list(a.shape)}, input" for name, a in inputs.items()]
    lines += [f"{name}: {a.dtype}{list(a.shape)}, weight{_shown(a)}" for name, a in network.initializers.items()]
    for node in network.nodes:
        node_attributes = {name: value for name, value in attributes(node).items() if not isinstance(value, ir.Graph)}
        arguments = [("" if v is None else str(v.name)) for v in node.inputs]
        arguments += [f"{name}={_attribute(value)}" for name, value in node_attributes.items()]
        outputs = ", ".join(str(v.name) for v in node.outputs)
        lines.append(f"{outputs} = {operator_name(node)}({', '.join(arguments)})")
    lines.append(f"returned: {', '.join(spec.name for spec in network.outputs)}; opset {network.opset}")
    return "\n".join(lines)


def _shown(array: np.ndarray) -> str:
    return f" = {array.tolist()}" if array.size <= 8 and (is_float(array.dtype) or array.dtype.kind in "iub") else ""


def _attribute(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
