"""One operator on given inputs, as a case with the reference's outputs; and drawing these inputs.

Shapes, element types and contents are such as excite an operator: edges first, then anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from deep_bench.graph import OPSET, Network
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import find, takes_count
from deep_bench.tensor import STRING, is_float, is_integer
from deep_bench.testing.case import Case

T = TypeVar("T")
SIZES = (1, 2, 3, 4, 5, 0)
"""Lengths of an axis; 0 and 1 are where kernels go wrong."""


class Draw(ABC):
    """A source of choices; everything else is made of `integer`.

    Two sources exist: `Seeded`, and in the tests one that a failing case is shrunk with.
    """

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""

    def pick(self, choices: Sequence[T]) -> T:
        """One of several; the first is the plainest."""
        return choices[self.integer(0, len(choices) - 1)]

    def maybe(self, value: T) -> T | None:
        """``value``, or nothing."""
        return self.pick((value, None))

    def boolean(self) -> int:
        """0 or 1, as ONNX writes a flag."""
        return self.integer(0, 1)

    def shape(self, low: int = 0, high: int = 4, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """The shape of a tensor of ``low`` to ``high`` axes."""
        return tuple(self.pick(sizes) for _ in range(self.integer(low, high)))

    def full_shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        """A shape without axes of length 0."""
        return self.shape(low, high, SIZES[:-1])

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``: axes are 1 here and there, or missing in front."""
        sizes = tuple(self.pick((size, 1)) for size in shape)
        return sizes[self.integer(0, len(sizes)) :]

    def axis(self, rank: int) -> int:
        """An axis of a tensor, counted from the front or from the back."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some distinct axes, each counted from either end, in any order."""
        chosen = [axis for axis in range(rank) if self.boolean()]
        turned = [axis - rank if self.boolean() else axis for axis in chosen]
        return tuple(turned[::-1] if self.boolean() else turned)

    def moderate(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """A tensor whose sums and products neither overflow nor are NaN."""
        return self.array(shape, dtype, self.pick(styles(np.dtype(dtype))[: 2 if is_float(np.dtype(dtype)) else 1]))

    def array(self, shape: Sequence[int], dtype: Any = np.float32, style: str | None = None) -> np.ndarray:
        """A tensor with contents of a drawn style, laid out plainly or as a view with strides.

        Args:
            shape: Its shape.
            dtype: Its element type.
            style: One of the styles of `contents`; drawn by default.
        """
        dtype = np.dtype(dtype)
        generator = np.random.default_rng(self.integer(0, 2**16))
        tensor = np.asarray(contents(generator, tuple(shape), dtype, style or self.pick(styles(dtype))))
        return _strided(tensor) if tensor.ndim and self.pick((False, False, True)) else tensor


class Seeded(Draw):
    """Choices from a pseudo-random generator.

    Args:
        seed: Numbers that name the sequence of choices.
    """

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """See `Draw.integer`."""
        return int(self._generator.integers(low, high, endpoint=True))


def styles(dtype: np.dtype) -> tuple[str, ...]:
    """What the contents of an element type may be like, the plainest first."""
    if is_float(dtype):
        return ("normal", "ties", "wide", "special")
    return ("small", "extreme") if is_integer(dtype) else ("any",)


def contents(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    """Random elements.

    Args:
        generator: The source.
        shape: The shape.
        dtype: The element type.
        style: ``normal``; ``ties``: multiples of one half, so that equals and halves occur; ``wide``: all magnitudes that
            the type has; ``special``: with zeros of both signs, infinities and NaN; ``small`` and ``extreme`` integers.
    """
    if dtype == STRING:
        return _chosen(generator, ("", "a", "B", "ab", "Ab c", "é", "aa", "a b  c"), shape, dtype)
    if dtype == np.bool_:
        return generator.random(shape) < 0.5
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        if style == "extreme":
            return _chosen(generator, (low, high, low + 1, high - 1, 0, 1, high // 2 + 1), shape, dtype)
        return generator.integers(max(low, -5), min(high, 5), shape, endpoint=True).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    normal = np.asarray(generator.standard_normal(shape))
    if style == "ties":
        return (np.round(normal * 2) / 2).astype(dtype)
    if style == "wide":
        with np.errstate(all="ignore"):
            reach = float(np.log2(float(ml_dtypes.finfo(dtype).max))) * 0.9
            return (np.sign(normal) * np.exp2(generator.uniform(-reach, reach, shape))).astype(dtype)
    if style == "special":
        pool = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
        with np.errstate(all="ignore"):
            return np.where(generator.random(shape) < 0.5, pool[generator.integers(0, 7, shape)], normal).astype(dtype)
    return normal.astype(dtype)


def _chosen(generator: np.random.Generator, pool: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.reshape(-1)[:] = [pool[i] for i in generator.integers(0, len(pool), array.size)]
    return array


def _strided(array: np.ndarray) -> np.ndarray:
    """The same contents as every other column of a wider array."""
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]


@cache
def dtypes(operator: str, index: int = 0, domain: str = "") -> tuple[np.dtype, ...]:
    """The element types that an operator's schema allows for a tensor among its inputs, float32 first.

    Args:
        operator: As ONNX spells it.
        index: Which input.
        domain: The operator's.

    Example:
        >>> [str(dtype) for dtype in dtypes("Relu")][:3]
        ['float32', 'bfloat16', 'float16']
    """
    schema = onnx.defs.get_schema(operator, OPSET, domain)
    allowed = schema.inputs[min(index, len(schema.inputs) - 1)].types
    types = [_dtype(t[len("tensor(") : -1]) for t in allowed if t.startswith("tensor(")]
    return tuple(sorted(types, key=lambda d: (d != np.float32, not is_float(d), str(d))))


def _dtype(name: str) -> np.dtype:
    number = onnx.TensorProto.DataType.Value(name.upper())
    return STRING if number == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


Type = onnx.TypeProto


@dataclass(frozen=True)
class GeneratedProblem:
    """One use of an operator.

    Args:
        operator: As ONNX spells it.
        inputs: Arrays, lists of arrays for sequences, ``None`` for omitted ones.
        attributes: By ONNX's names; subgraphs among them read ``outer`` as ``outer0``, ``outer1`` and so on.
        outputs: How many results are asked for.
        domain: The operator's.
        outer: Values that subgraphs read from around them.
        types: Which input has which type, where its value does not tell: an empty sequence, anything optional.
        output_types: The same of outputs.
    """

    operator: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    outer: Sequence[Any] = ()
    types: Mapping[int, Type] = field(default_factory=dict)
    output_types: Mapping[int, Type] = field(default_factory=dict)

    def results(self) -> tuple[Any, ...]:
        """What the reference gives; where there are subgraphs, as a network.

        Raises:
            LookupError: It has no such operator.
        """
        if any(isinstance(value, onnx.GraphProto) for value in self.attributes.values()):
            return self._run()
        function = find(self.domain, self.operator)
        if function is None:
            raise LookupError(f"{self.operator} has no reference")
        settings = {n: _as_stored(v) for n, v in self.attributes.items() if v is not None}
        if takes_count(function):
            settings["n_outputs"] = self.outputs
        with np.errstate(all="ignore"):
            output = function(*self.inputs, **settings)
        results = (output if isinstance(output, tuple) else (output,))[: self.outputs]
        return tuple(r if isinstance(r, list) or r is None else np.asarray(r) for r in results)

    def case(self, name: str) -> Case:
        """It as a case: a network of one node, its inputs, and the reference's outputs."""
        results = self.results()
        model = self._model(name, [self._made(i, value) for i, value in enumerate(results)])
        return Case(name, "generated", model, tuple(self._fed().values()), results, rtol=1e-5, atol=1e-7)

    def _made(self, i: int, value: Any) -> onnx.ValueInfoProto:
        return _info(f"y{i}", value, self.output_types.get(i))

    def _run(self) -> tuple[Any, ...]:
        unknown = [helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, None) for i in range(self.outputs)]
        network = Network.from_proto(self._model(self.operator, unknown))
        return tuple(ReferenceAdapter().prepare(network)(self._fed()).values())

    def _fed(self) -> dict[str, Any]:
        """Name to value of the graph's inputs."""
        node_inputs = {f"x{i}": v for i, v in enumerate(self.inputs) if v is not None or i in self.types}
        return node_inputs | {f"outer{i}": v for i, v in enumerate(self.outer)}

    def _model(self, name: str, outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        fed = self._fed()
        input_names = [f"x{i}" if f"x{i}" in fed else "" for i in range(len(self.inputs))]
        settings = {n: _attribute(v) for n, v in self.attributes.items() if v is not None}
        node = helper.make_node(
            self.operator, input_names, [v.name for v in outputs], name=self.operator, domain=self.domain, **settings
        )
        types = {f"x{i}": kind for i, kind in self.types.items()}
        graph = helper.make_graph([node], name, [_info(n, v, types.get(n)) for n, v in fed.items()], outputs)
        opsets = [helper.make_opsetid("", OPSET)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = helper.find_min_ir_version_for(opsets[:1])
        return model


def _as_stored(value: Any) -> Any:
    """An attribute's value as a file keeps it: numbers in float32."""
    if isinstance(value, float):
        return float(np.float32(value))
    return tuple(map(_as_stored, value)) if isinstance(value, tuple | list) else value


def _attribute(value: Any) -> Any:
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _info(name: str, value: Any, kind: Type | None = None) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, kind or type_of(value))


def type_of(value: Any) -> Type:
    """The type of an array, or of a list of arrays; an empty list's elements are taken to be in float32.

    Example:
        >>> type_of([np.zeros(2, np.int64)]).sequence_type.elem_type.tensor_type.elem_type
        7
    """
    if isinstance(value, list):
        element = helper.make_tensor_type_proto(_code(value[0]) if value else onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    return helper.make_tensor_type_proto(_code(value), np.shape(value))


def _code(value: Any) -> int:
    return code_of(np.asarray(value).dtype)


def code_of(dtype: np.dtype) -> int:
    """ONNX's number of an element type.

    Example:
        >>> code_of(np.dtype("int64"))
        7
    """
    return int(onnx.TensorProto.STRING if dtype == STRING or dtype.kind in "UT" else helper.np_dtype_to_tensor_dtype(dtype))
