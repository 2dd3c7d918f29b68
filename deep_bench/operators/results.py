"""What shapes and element types an operator's results have: of a case, and of a node.

Those of a node in a network are for the shapes that its inputs turn out to have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import DeepBenchError, Unsupported
from deep_bench.framework import Describe
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import Option, schema_of, split
from deep_bench.tensor import TensorSpec, is_inexact, is_integer

_MOST_DECIDING = 64
"""The most elements of an input that a result's shape may depend on, such as the shape of a Reshape."""


def may_decide_shape(array: Any) -> bool:
    """Whether the contents of an input may decide the shape of a result: a few integers."""
    return isinstance(array, np.ndarray) and array.ndim <= 1 and array.size <= _MOST_DECIDING and is_integer(array.dtype)


def infer_results(
    computes: str | Callable[..., Any],
    inputs: Sequence[TensorSpec | None],
    values: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    outputs: int | None,
) -> tuple[tuple[TensorSpec, ...], bool]:
    """The results, and whether their shapes depend on ``values``.

    Args:
        computes: The operator or function.
        inputs: In order; ``None`` for omitted ones.
        values: The contents of those whose contents may decide the shape of a result.
        attributes: The operator's.
        outputs: How many results are asked for; ``None`` for as few as the operator has.

    Raises:
        Unsupported: A dimension depends on other contents.
        InvalidArgument: The inputs and attributes do not fit the operator, or each other.
    """
    schema = schema_of(*split(computes)) if isinstance(computes, str) else None
    if outputs is None:
        outputs = max(1, sum(o.option == Option.Single for o in schema.outputs) if schema is not None else 0)
    arguments = tuple(None if spec is None else Argument(spec) for spec in inputs)
    if all(value is None for value in values):
        return results_of(Case(computes, arguments, attributes, outputs=outputs)), False
    if schema is not None:  # without one the operator is run, and may fail on other contents
        anyhow = Case(computes, arguments, attributes, outputs=outputs).results
        if not any(spec.open_dimensions for spec in anyhow):
            return anyhow, False
    pairs = zip(arguments, values, strict=True)
    fixed = tuple(a if value is None else Argument.constant(value) for a, value in pairs)
    return results_of(Case(computes, fixed, attributes, outputs=outputs)), True


def results_of(case: Case) -> tuple[TensorSpec, ...]:
    """The results, all of whose dimensions must be known before the call.

    Raises:
        Unsupported: A dimension depends on the contents of the inputs.
    """
    for spec in case.results:
        if spec.open_dimensions:
            raise Unsupported(
                f"{case.op_type} gives {spec}, whose size only its contents decide",
                "results of a known size, for which memory can be allocated before the call",
                "write such an operator in Python",
            )
    return case.results


def gradients_of(inputs: Sequence[TensorSpec | None], names: Sequence[str] | None) -> tuple[TensorSpec | None, ...]:
    """The gradient of each input: ``None`` for integers, for omitted ones, and for those not in ``names``."""
    specs = []
    for i, spec in enumerate(inputs):
        differentiable = (
            spec is not None and is_inexact(spec.dtype) and (names is None or (i < len(names) and bool(names[i])))
        )
        specs.append(TensorSpec(f"d{spec.name}", spec.shape, spec.dtype) if differentiable and spec is not None else None)
    return tuple(specs)


Specs = tuple[TensorSpec, ...]

_MOST_SHAPES = 1_000
"""So many inferences are kept before those that hang on contents are made anew."""


_TRIED = (64, 65)
"""Sizes of dimensions that are open while a graph is traced: what both give is known."""


class NodeResults:
    """The outputs of one node, inferred once for inputs of the same shapes.

    Args:
        computes: The operator; of a function nothing is inferred.
        attributes: What the node states.
        outputs: How many outputs it has.
        to_numpy: Reads an array of the kernel's device.

    Example:
        >>> from deep_bench.framework import describe_numpy
        >>> results = NodeResults("Concat", {"axis": 0}, 1, np.asarray)
        >>> results.of([np.zeros((2, 3)), np.zeros((4, 3))], [None, None], describe_numpy)[0].shape
        (6, 3)
    """

    def __init__(
        self,
        computes: str | Callable[..., Any],
        attributes: Mapping[str, Any],
        outputs: int,
        to_numpy: Callable[[Any], np.ndarray],
    ) -> None:
        self._computes, self._attributes, self._outputs, self._to_numpy = computes, attributes, outputs, to_numpy
        self._known: dict[Any, Specs | None] = {}
        self._depending: set[Any] = set()

    def of(self, inputs: Sequence[Any], constants: Sequence[np.ndarray | None], describe: Describe) -> Specs | None:
        """What the outputs are to be; ``None`` where that cannot be told. What only their contents decide is open.

        Args:
            inputs: Arrays of the kernel's device, ``None`` for an omitted one.
            constants: The contents of those that never change.
            describe: Tells shape and element type of such arrays.
        """
        if not isinstance(self._computes, str):
            return None
        specs = [None if x is None else _spec(f"x{i}", x, describe) for i, x in enumerate(inputs)]
        if any(spec is None and x is not None for spec, x in zip(specs, inputs, strict=True)):
            return None
        key = tuple(None if spec is None else (spec.shape, spec.dtype) for spec in specs)
        if key not in self._known:
            self._known[key] = self._inferred(specs, [None] * len(specs))
            result_specs = self._known[key]
            if result_specs is None or any(spec.open_dimensions for spec in result_specs):
                self._depending.add(key)
        if key not in self._depending:
            return self._known[key]
        values = [self._value(*x) for x in zip(specs, inputs, _padded(constants, len(specs)), strict=True)]
        whole = (key, tuple(None if v is None else v.tobytes() for v in values))
        if whole not in self._known:
            if len(self._known) > _MOST_SHAPES:
                self._known = {k: v for k, v in self._known.items() if k in self._depending}
            self._known[whole] = self._inferred(specs, values)
        return self._known[whole]

    def _value(self, spec: TensorSpec | None, x: Any, constant: np.ndarray | None) -> np.ndarray | None:
        """The contents of an input that may decide the shape of an output: a few integers."""
        if constant is not None:
            return constant if may_decide_shape(constant) else None
        if spec is None or spec.open_dimensions or not is_integer(spec.dtype) or len(spec.shape) > 1:
            return None
        try:
            array = np.asarray(self._to_numpy(x))
        except Exception:  # a graph that is being traced has no contents yet: frameworks say so in their own ways
            return None
        return array if may_decide_shape(array) else None

    def _inferred(self, specs: Sequence[TensorSpec | None], values: Sequence[np.ndarray | None]) -> Specs | None:
        if not any(spec is not None and spec.open_dimensions for spec in specs):
            return self._results(specs, values)
        first, second = (self._results([None if s is None else _closed(s, n) for s in specs], values) for n in _TRIED)
        if first is None or second is None or [len(s.shape) for s in first] != [len(s.shape) for s in second]:
            return None
        return tuple(_common(a, b) for a, b in zip(first, second, strict=True))

    def _results(self, specs: Sequence[TensorSpec | None], values: Sequence[np.ndarray | None]) -> Specs | None:
        pairs = zip(specs, values, strict=True)
        arguments = [None if s is None else Argument(s) if v is None else Argument.constant(v) for s, v in pairs]
        try:
            return Case(self._computes, tuple(arguments), self._attributes, outputs=self._outputs).results
        except DeepBenchError:  # the standard cannot tell; the kernel may
            return None


def fits(shape: Sequence[Any], spec: TensorSpec) -> bool:
    """Whether an array of a shape can be the output; dimensions that are not known yet fit any.

    Example:
        >>> spec = TensorSpec("y", ("n", 3), np.dtype("float32"))
        >>> fits((2, None), spec), fits((2, 4), spec), fits((3,), spec)
        (True, False, False)
    """
    pairs = zip(shape, spec.shape, strict=len(shape) == len(spec.shape))
    return len(shape) == len(spec.shape) and all(a == b or a is None or isinstance(b, str) for a, b in pairs)


def _spec(name: str, x: Any, describe: Describe) -> TensorSpec | None:
    try:
        description = describe(x)
    except ValueError:  # a tensor of TensorFlow's whose rank only the run tells
        return None
    if description is None:
        return None
    shape = tuple(f"{name}.{i}" if d is None else d for i, d in enumerate(description[0]))
    return TensorSpec(name, shape, description[1])


def _closed(spec: TensorSpec, size: int) -> TensorSpec:
    return TensorSpec(spec.name, tuple(size if isinstance(d, str) else d for d in spec.shape), spec.dtype)


def _common(first: TensorSpec, second: TensorSpec) -> TensorSpec:
    shape = (a if a == b else f"{first.name}.{i}" for i, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)))
    return TensorSpec(first.name, tuple(shape), first.dtype)


def _padded(constants: Sequence[np.ndarray | None], count: int) -> list[np.ndarray | None]:
    return [constants[i] if i < len(constants) else None for i in range(count)]
