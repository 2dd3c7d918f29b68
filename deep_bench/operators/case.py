"""The case: one problem for a kernel to solve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.operators.argument import Argument, Draw
from deep_bench.operators.case_schema import input_names, split
from deep_bench.operators.case_values import Attributes, content
from deep_bench.tensor import TensorSpec

if TYPE_CHECKING:
    from deep_bench.graph import Network


@dataclass(frozen=True, eq=False)
class Case:
    """One use of an operator: what it is given, but for the numbers, which a seed decides.

    Most are made by `Case.of`. Cases are values: they cannot be changed, compare by content, and survive pickling (with a
    function of the user's as far as that does).

    Args:
        operator: An ONNX operator (``"Gemm"``, ``"com.microsoft::BiasGelu"``), or a NumPy function that a person can read.
        arguments: Its inputs in order, ``None`` for omitted ones.
        attributes: By the operator's names; what is left out has its default.
        label: How tables call it, such as ``"5124x700x2048"``.
        tags: Words to choose cases by.
        count: How often it occurs in the network that it is from.
        source: Where its sizes are from.
        outputs: How many results are asked for.

    Attributes:
        arguments: As given, each under the name that the operator's schema or the function has for it.

    Example:
        >>> case = Case.of("Gemm", (2, 3), (3, 4), transA=0)
        >>> case.label, [str(a) for a in case.arguments], [str(r) for r in case.results]
        ('2x4x3', ['A: float32[2, 3]', 'B: float32[3, 4]'], ['Y: float32[2, 4]'])
        >>> {name: array.shape for name, array in case.arrays(seed=7).items()}
        {'A': (2, 3), 'B': (3, 4)}
    """

    operator: str | Callable[..., Any]
    arguments: tuple[Argument | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=Attributes)
    label: str = ""
    tags: frozenset[str] = frozenset()
    count: int = 1
    source: str = ""
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.outputs < 1:
            raise InvalidArgument(f"a case with count={self.count} and outputs={self.outputs}", "numbers of at least 1")
        names = input_names(self.operator, len(self.arguments))
        named = (None if a is None else a.named(n) for a, n in zip(self.arguments, names, strict=True))
        object.__setattr__(self, "arguments", tuple(named))
        object.__setattr__(self, "attributes", Attributes(self.attributes))
        object.__setattr__(self, "tags", frozenset(self.tags))

    @classmethod
    def of(
        cls,
        operator: str | Callable[..., Any],
        *inputs: Any,
        dtype: str | np.dtype | type | None = None,
        label: str | None = None,
        tags: Iterable[str] = (),
        count: int = 1,
        source: str = "",
        outputs: int | None = None,
        draws: Mapping[str, Draw] | None = None,
        settings: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Case:
        """A case from shapes.

        Args:
            operator: As for `Case`.
            *inputs: In order: a shape, which is drawn; an array, a number or a list, which is constant; text such as
                ``"int32[2, 3]"`` for a shape with an element type; an `Argument`; ``None`` for an omitted input.
            dtype: Of all inputs whose schema allows it, float32 by default. Others (indices, masks) have what their schema
                prefers.
            label: How tables call it; made from the sizes by default.
            tags, count, source: As for `Case`.
            outputs: How many results are asked for; by default those that the operator must give.
            draws: Input name to how it is drawn, where that is not what the operator's own table says.
            settings: Attributes whose names are taken by one of these arguments (``dtype``).
            **attributes: The operator's, by ONNX's names; or keyword arguments of the function.

        Raises:
            UnknownName: ONNX has no such operator.
            InvalidArgument: The inputs or attributes are not such as the operator's schema has them, or do not fit each
                other.

        Example:
            >>> Case.of("Gelu", (2, 3)).label
            '2x3'
            >>> Case.of("Reshape", (2, 3), [3, 2]).results[0].shape
            (3, 2)
            >>> str(Case.of("Gather", (100, 8), (4,), dtype="bfloat16").arguments[1])
            'indices: int64[4]'
        """
        from deep_bench.operators.case_of import make_case

        node_attributes = {**(settings or {}), **attributes}
        case = make_case(cls, operator, inputs, node_attributes, dtype=dtype, draws=draws or {}, outputs=outputs)
        shown = case.label if label is None else label
        return replace(case, label=shown, tags=frozenset(tags), count=count, source=source)

    @property
    def domain(self) -> str:
        """The operator's domain: ``""`` for ONNX's own, ``"numpy"`` for a function."""
        return split(self.operator)[0]

    @property
    def op_type(self) -> str:
        """The operator's or the function's name, without its domain."""
        return split(self.operator)[1]

    @property
    def name(self) -> str:
        """The operator and the label, for tables that hold more than one operator."""
        return self.label if self.label.startswith(self.op_type) else f"{self.op_type} {self.label}".strip()

    @property
    def drawn(self) -> tuple[TensorSpec, ...]:
        """The inputs that are not constant, in order: the inputs of its network."""
        return tuple(a.spec for a in self.arguments if a is not None and a.value is None)

    @cached_property
    def results(self) -> tuple[TensorSpec, ...]:
        """What it gives. A dimension that only a run shows has a name; an operator without a schema is run once.

        Raises:
            InvalidArgument: The shapes, element types or attributes do not fit each other.
        """
        from deep_bench.operators.case_network import infer_outputs

        return infer_outputs(self)

    @cached_property
    def problem(self) -> tuple[Any, ...]:
        """What there is to compute, hashable: the same for cases that differ in label, tags, count and source only."""
        contents = tuple(None if a is None else a.content for a in self.arguments)
        return (self.operator, contents, content(self.attributes), self.outputs)

    def network(self) -> Network:
        """It as a network of one node, which is named after the operator, in opset `deep_bench.graph.OPSET`.

        Inputs and outputs have the names of the operator's schema, variadic ones numbered; constants are initializers. A
        function becomes a node of the domain ``numpy``.

        Raises:
            InvalidArgument: The shapes, element types or attributes do not fit each other.

        Example:
            >>> network = Case.of("Concat", (2, 3), (2, 4), axis=1).network()
            >>> [str(s) for s in network.inputs], [str(s) for s in network.outputs]
            (['inputs_0: float32[2, 3]', 'inputs_1: float32[2, 4]'], ['concat_result: float32[2, 7]'])
        """
        from deep_bench.operators.case_network import build

        return build(self)

    def arrays(self, seed: int = 0, distribution: str = "normal") -> dict[str, np.ndarray]:
        """Contents for the inputs that are not constant.

        Each argument has a generator of its own, made from the seed and its place: the same seed gives the same arrays.

        Args:
            seed: Names the contents.
            distribution: One of `deep_bench.operators.draws.DISTRIBUTIONS`.

        Raises:
            UnknownName: No such distribution, or no such draw.
            InvalidArgument: A function that draws gives another shape or element type than the argument has.
        """
        from deep_bench.operators.draws import draw
        from deep_bench.operators.draws_limits import limit_of

        contents = {}
        for i, argument in enumerate(self.arguments):
            if argument is not None and argument.value is None:
                rng = np.random.default_rng([seed, i])
                limit = limit_of(self, i) if distribution in ("huge", "wide", "special") else None
                contents[argument.spec.name] = draw(argument, rng, distribution, limit)
        return contents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return (self.problem, self.label, self.tags, self.count, self.source)

    def __str__(self) -> str:
        return self.name
