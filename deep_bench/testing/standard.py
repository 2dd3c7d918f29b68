"""The ONNX standard's own test cases, run on an adapter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test import loader

from deep_bench.errors import DeepBenchError, InvalidNetwork, Unsupported
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.tensor import is_float, is_integer

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Case:
    """One test case of the standard: a network with inputs and the outputs they must give.

    Args:
        name: The standard's name for it.
        kind: One of `KINDS`.
        proto: The network.
        inputs: In the order of the graph's inputs.
        outputs: In the order of the graph's outputs.
        rtol: The case's own relative tolerance.
        atol: The case's own absolute tolerance.
    """

    name: str
    kind: str
    proto: onnx.ModelProto
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The distinct operators in the outermost graph."""
        return tuple(dict.fromkeys(node.op_type for node in self.proto.graph.node))


@dataclass(frozen=True)
class Outcome:
    """How an adapter did on a case.

    Args:
        case: The case's name.
        word: ``passed``; ``wrong`` (an answer, and not the right one); ``refused`` (said in ``prepare`` that it cannot);
            ``failed`` (any other error).
        detail: What differs, or the error.
        fallback: Whether any node was computed by the reference instead of the framework.
        decomposed: Whether any node was expanded into several.
    """

    case: str
    word: str
    detail: str = ""
    fallback: bool = False
    decomposed: bool = False


@cache
def standard_cases(kind: str = "node") -> tuple[Case, ...]:
    """All cases of a kind, as the installed ``onnx`` package ships them.

    Example:
        >>> [case.operators for case in standard_cases("simple") if case.name == "test_sign_model"]
        [('Sign',)]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
        return tuple(case for test in loader.load_model_tests(kind=kind) for case in _cases(test, kind))


def freeze(case: Case) -> Case:
    """The case with every input but the first turned into an initializer, as real networks have them.

    Inputs that are no tensors stay.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    kept_values, kept = [], []
    for index, (value, array) in enumerate(zip(case.proto.graph.input, case.inputs, strict=False)):
        if index and isinstance(array, np.ndarray) and value.type.HasField("tensor_type"):
            proto.graph.initializer.append(_tensor(array, value))
        else:
            kept_values.append(value)
            kept.append(array)
    del proto.graph.input[:]
    proto.graph.input.extend(kept_values)
    return Case(case.name, case.kind, proto, tuple(kept), case.outputs, case.rtol, case.atol)


def run_case(adapter: Adapter[Any], case: Case) -> Outcome:
    """Prepare and run a case, and compare its outputs with the standard's by the case's own tolerances."""
    try:
        executor = adapter.prepare(Network.from_proto(case.proto, name=case.name))
    except (Unsupported, InvalidNetwork) as error:
        return Outcome(case.name, "refused", str(error))
    except Exception as error:  # whatever a framework raises, it costs this case only
        return Outcome(case.name, "failed", f"prepare: {type(error).__name__}: {error}")
    forms = {"fallback": bool(executor.forms.fallback), "decomposed": bool(executor.forms.decomposed)}
    try:
        feeds = {spec.name: _fed(a) for spec, a in zip(executor.inputs, case.inputs, strict=True)}
        found = executor(feeds)
    except (DeepBenchError, Exception) as error:
        return Outcome(case.name, "failed", f"call: {type(error).__name__}: {error}", **forms)
    detail = "; ".join(_differences(case, list(found.values())))
    return Outcome(case.name, "wrong" if detail else "passed", detail, **forms)


def _fed(value: Any) -> Any:
    return value if value is None or isinstance(value, list | tuple) else np.asarray(value)


def _differences(case: Case, found: Sequence[Any]) -> Iterator[str]:
    if len(found) != len(case.outputs):
        yield f"{len(found)} outputs instead of {len(case.outputs)}"
        return
    for value, got, want in zip(case.proto.graph.output, found, case.outputs, strict=True):
        difference = _difference(got, want, case)
        if difference:
            yield f"{value.name}: {difference}"


def _difference(got: Any, want: Any, case: Case) -> str:
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return "another sequence length"
        return next((d for g, w in zip(got, want, strict=True) if (d := _difference(g, w, case))), "")
    if want is None or got is None:
        return "" if want is got else "an empty optional on one side"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)} instead of {list(want.shape)}"
    if want.dtype.kind in "OUST":
        return "" if (got.astype(str) == want.astype(str)).all() else "other strings"
    if got.dtype != want.dtype:
        return f"element type {got.dtype} instead of {want.dtype}"
    if is_float(want.dtype):
        # A case's tolerances are made for float32; a narrower format is allowed a few of its own roundings.
        coarse = want.dtype.itemsize < 2 or want.dtype.name == "bfloat16"
        rtol = max(case.rtol, 2.0**-6 if coarse else 2.0**-9 if want.dtype == np.float16 else 0)
        close = np.isclose(got.astype(np.float64), want.astype(np.float64), rtol, case.atol, equal_nan=True)
    elif is_integer(want.dtype) or want.dtype == bool:
        close = got.astype(object) == want.astype(object)
    else:
        close = np.isclose(got, want, case.rtol, case.atol, equal_nan=True)
    return "" if np.all(close) else f"{np.size(close) - np.count_nonzero(close)} of {np.size(close)} elements differ"


def _cases(test: Any, kind: str) -> Iterator[Case]:
    if test.model is not None:
        proto = test.model
        sets = [([_plain(v) for v in inputs], [_plain(v) for v in outputs]) for inputs, outputs in test.data_sets]
    else:
        folder = Path(test.model_dir)
        proto = onnx.load(folder / "model.onnx")
        sets = [_read_set(path, proto) for path in sorted(folder.glob("test_data_set_*"))]
    for number, (inputs, outputs) in enumerate(sets):
        name = test.name if len(sets) == 1 else f"{test.name}/{number}"
        yield Case(name, kind, proto, tuple(inputs), tuple(outputs), test.rtol, test.atol)


def _plain(value: Any) -> Any:
    """The array, list or ``None`` behind a value; the cases of types that NumPy lacks hold protocol buffers."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    return onnx.numpy_helper.to_optional(value) if isinstance(value, onnx.OptionalProto) else value


def _read_set(folder: Path, proto: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    initializers = {t.name for t in proto.graph.initializer}
    fed = [v for v in proto.graph.input if v.name not in initializers]
    inputs = [_read_value(folder / f"input_{i}.pb", v) for i, v in enumerate(fed) if (folder / f"input_{i}.pb").exists()]
    return inputs, [_read_value(folder / f"output_{i}.pb", v) for i, v in enumerate(proto.graph.output)]


def _read_value(file: Path, value: onnx.ValueInfoProto) -> Any:
    content = file.read_bytes()
    if value.type.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(content)
        return onnx.numpy_helper.to_list(sequence)
    if value.type.HasField("optional_type"):
        optional = onnx.OptionalProto()
        optional.ParseFromString(content)
        return onnx.numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(content)
    return onnx.numpy_helper.to_array(tensor)


def _tensor(array: np.ndarray, value: onnx.ValueInfoProto) -> onnx.TensorProto:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return onnx.numpy_helper.from_array(array.astype(dtype) if array.dtype.kind in "OUST" else array, value.name)
