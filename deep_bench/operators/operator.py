"""The operator: what a person subclasses to have a kernel of their own timed and checked.

As an adapter (`KernelAdapter`) it takes the place of a framework on a network of one node, so that whatever times or
checks frameworks does so for an operator. Pickled it goes to another process.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import onnx_ir as ir

from deep_bench.arrays import NUMPY, NumpyFunctions
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported, UnsupportedOperator
from deep_bench.framework import Adapter, Device, Executor, Forms, Mode
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.graph.network import tensor_spec
from deep_bench.graph.node import as_array, function_of, schema
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import schema_of, spelled, split

A = TypeVar("A")


class Host(Device[np.ndarray]):
    """This machine's memory, with NumPy arrays in it."""

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy, which no later call can overwrite."""
        return np.array(array)

    def synchronize(self) -> None:
        """Nothing: NumPy's work is done when its call returns."""

    @property
    def xp(self) -> NumpyFunctions:
        """See `Device.xp`."""
        return NUMPY


class Operator(ABC, Generic[A]):
    r"""A kernel, on the arrays of one device.

    One method is overridden: `forward`. It gets the inputs in the order of the ONNX operator, those that a case omits as
    ``None``, and the attributes by keyword, defaults included where it names them. Arrays are ``device``'s own.

    With ``backward`` the gradients are timed and checked as well: for a scalar :math:`L`, of which ``grads`` holds
    :math:`\partial L / \partial y_i` for each output, it returns :math:`\partial L / \partial x_j` for each input.

    Attributes:
        computes: What it claims to compute: an ONNX operator (``"Gelu"``, ``"com.microsoft::FusedGemm"``), or a NumPy
            function of the same signature that a person can read.
        device: Where its arrays live.
        returns_views: Whether an output may share memory with an input.
        reuses_outputs: Whether `forward` may return memory that an earlier call has returned already.
        norm_wise: Whether its algorithm is knowingly accurate relative to the largest results only (Winograd, Strassen,
            fast math), and is to be judged so.

    Example:
        >>> import numpy as np
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Doubled().forward(np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
    """

    computes: str | Callable[..., Any]
    device: Device[A] = Host()  # type: ignore[assignment]
    returns_views: bool = False
    reuses_outputs: bool = False
    norm_wise: bool = False

    @property
    def name(self) -> str:
        """How tables call it: the name of the class."""
        return type(self).__name__

    @property
    def target(self) -> str | Callable[..., Any]:
        """What it claims to compute, as `computes` states it: a function in the class is no method.

        Raises:
            InvalidArgument: It states nothing, or neither a name nor a function.
        """
        claim = inspect.getattr_static(self, "computes", None)
        claim = claim.__func__ if isinstance(claim, staticmethod) else claim
        if not (callable(claim) or (isinstance(claim, str) and claim)):
            raise InvalidArgument(
                f"{self.name}.computes is {claim!r}",
                "the name of an ONNX operator, or a NumPy function",
                f'state what it is to be checked against: computes = "Gelu" in the class {type(self).__name__}',
            )
        return claim

    def setup(self, case: Case) -> None:
        """Compile or allocate what one case needs; called before the first call of `forward`, and timed apart."""
        del case

    @abstractmethod
    def forward(self, *inputs: Any, **attributes: Any) -> A | tuple[A, ...]:
        """The operator's output, or a tuple of its outputs. The inputs must stay as they are."""

    def bind(self, *inputs: Any, **attributes: Any) -> Callable[[], A | tuple[A, ...]]:
        """A call without arguments of `forward` on these inputs, which is what is timed.

        Override it where such a call can do with less than `forward` needs; its outputs are valid until the next call only.
        """
        return lambda: self.forward(*inputs, **attributes)

    def backward(
        self, grads: Sequence[A | None], inputs: Sequence[A | None], outputs: Sequence[A], **attributes: Any
    ) -> tuple[A | None, ...]:
        """The gradient of each input, ``None`` where there is none.

        Args:
            grads: The gradient of each output, in order; ``None`` for an output that the loss does not depend on.
            inputs: What `forward` got.
            outputs: What it returned, always as a tuple.
            **attributes: As for `forward`.

        Raises:
            Unsupported: The operator has no gradient.
        """
        del grads, inputs, outputs, attributes
        raise Unsupported(
            f"{self.name} has no gradient", advice=f"override {self.name}.backward to have it checked and timed"
        )

    @property
    def differentiates(self) -> bool:
        """Whether it has a ``backward`` of its own."""
        return type(self).backward is not Operator.backward


def case_of_node(network: Network) -> Case:
    """The case of a network's only node; what is constant in the network is constant in the case."""
    (node,) = network.nodes
    operator = function_of(node) or spelled(node)
    arguments = tuple(None if v is None else Argument(tensor_spec(v), as_array(v)) for v in node.inputs)
    return Case(operator, arguments, attributes(node), label=network.name, outputs=len(node.outputs))


class KernelAdapter(Adapter[Any]):
    """Runs networks of one node with an operator of the user's.

    Args:
        operator: The kernel.

    Example:
        >>> from deep_bench.operators import Case
        >>> class Plain(Operator):
        ...     computes = "Add"
        ...     def forward(self, a, b):
        ...         return a + b
        >>> case = Case.of("Add", (2,), [1.0, 2.0])
        >>> sorted(KernelAdapter(Plain()).prepare(case.network())({"A": np.zeros(2, np.float32)}))
        ['C']
    """

    name: ClassVar[str] = "kernel"

    def __init__(self, operator: Operator[Any]) -> None:
        if not isinstance(operator, Operator):
            raise InvalidArgument(f"a {type(operator).__name__}", "an object of a subclass of deep_bench.Operator")
        self.operator = operator
        self._computes = split(operator.target)
        if isinstance(operator.target, str):
            schema_of(*self._computes)  # raises where there is no such operator

    def from_numpy(self, array: np.ndarray) -> Any:
        """An array of the operator's device."""
        return self.operator.device.from_numpy(array)

    def to_numpy(self, array: Any) -> np.ndarray:
        """A copy in NumPy."""
        return self.operator.device.to_numpy(array)

    def synchronize(self) -> None:
        """Wait for the operator's device."""
        self.operator.device.synchronize()

    def prepare(self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None) -> KernelExecutor:
        """Set the operator up for the network's only node."""
        if mode not in ("inference", "train"):
            raise InvalidArgument(f"mode {mode!r}", "'inference' or 'train'")
        upgraded = network.upgraded()
        for node in upgraded.nodes:
            if split(spelled(node)) != self._computes or len(upgraded.nodes) > 1:
                opset = upgraded.opsets.get(node.domain)
                reason = f"{self.operator.name} computes a single {split_name(self._computes)}"
                raise UnsupportedOperator(str(node.name), operator_name(node), opset, reason)
        return KernelExecutor(self, upgraded, outputs)

    def describe(self) -> Mapping[str, str]:
        """What the operator's device says of itself, if it says anything."""
        described = getattr(self.operator.device, "describe", dict)
        return {"version": type(self.operator).__qualname__, **described()}


def split_name(computes: tuple[str, str]) -> str:
    """An operator as messages call it."""
    return f"{computes[0]}:{computes[1]}" if computes[0] else computes[1]


class KernelExecutor(Executor[Any]):
    """An operator, ready for one case.

    Args:
        adapter: The operator's.
        network: One node.
        outputs: Names of outputs to return instead of all.
    """

    def __init__(self, adapter: KernelAdapter, network: Network, outputs: Sequence[str] | None) -> None:
        node = network.nodes[0]
        self.device: Any = adapter
        self.operator = adapter.operator
        self.case = case_of_node(network)
        self.inputs = network.inputs
        self.results = tuple(str(v.name) if v.name else "" for v in node.outputs)
        self.output_names = tuple(outputs) if outputs is not None else tuple(spec.name for spec in network.outputs)
        self.attributes = keywords(self.operator.forward, node, network.opset, self.operator.name)
        self.parameters = {n: adapter.from_numpy(a) for n, a in _constants(node).items()}
        self.forms = Forms(native=(str(node.name),))
        self._names = tuple(None if v is None else str(v.name) for v in node.inputs)
        check_inputs(self.operator.forward, self._names, self.attributes, self.operator.name, operator_name(node))
        self.operator.setup(self.case)

    def arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the operator's order, ``None`` for omitted ones."""
        by_name = {**self.parameters, **inputs}
        return [None if name is None else by_name[name] for name in self._names]

    def outputs(self, found: Any) -> tuple[Any, ...]:
        """What ``forward`` returned, as a tuple.

        Raises:
            InvalidInput: It is no array and no tuple of as many arrays as the node has outputs.
        """
        results = found if isinstance(found, tuple) else (found,)
        count = len(self.results)
        if isinstance(found, list | dict) or found is None or len(results) != count or any(r is None for r in results):
            came = f"a tuple of {len(results)}" if isinstance(found, tuple) else f"a {type(found).__name__}"
            expected = "an array" if count == 1 else f"a tuple of {count} arrays"
            raise InvalidInput(f"{self.operator.name}.forward returned {came}", expected, "return the arrays themselves")
        return results

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the kernel."""
        results = self.outputs(self.operator.forward(*self.arguments(inputs), **self.attributes))
        named = dict(zip(self.results, results, strict=True))
        return {name: named[name] for name in self.output_names}

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """The call that is timed: the kernel, and a dictionary for what it returns."""
        if type(self.operator).bind is Operator.bind:
            return self.bound(self.operator.forward, inputs)
        call, results = self.operator.bind(*self.arguments(inputs), **self.attributes), self.results
        if len(results) == 1:
            name = results[0]
            return lambda: {name: call()}
        return lambda: dict(zip(results, call(), strict=True))

    def bound(self, forward: Callable[..., Any], inputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """The same call of another function in the place of ``forward``."""
        arguments, attributes, results = self.arguments(inputs), self.attributes, self.results
        if len(results) == 1:
            name = results[0]
            return lambda: {name: forward(*arguments, **attributes)}
        return lambda: dict(zip(results, forward(*arguments, **attributes), strict=True))

    def pull_back(self, inputs: Mapping[str, Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """What ``backward`` returns for the gradients of all outputs, after a run of ``forward``.

        Raises:
            InvalidInput: It is no tuple with one entry for each input.
        """
        arguments = self.arguments(inputs)
        outputs = self.outputs(self.operator.forward(*arguments, **self.attributes))
        return self.gradients_of(self.operator.backward(tuple(grads), tuple(arguments), outputs, **self.attributes))

    def gradients_of(self, found: Any) -> tuple[Any, ...]:
        """What ``backward`` returned, as a tuple with one entry for each input."""
        results = found if isinstance(found, tuple) else (found,)
        if isinstance(found, list | dict) or found is None or len(results) != len(self._names):
            came = f"a tuple of {len(results)}" if isinstance(found, tuple) else f"a {type(found).__name__}"
            expected = f"a tuple with one array or None for each of the {len(self._names)} inputs"
            raise InvalidInput(f"{self.operator.name}.backward returned {came}", expected)
        return results


def keywords(forward: Callable[..., Any], node: ir.Node, opset: int, name: str) -> dict[str, Any]:
    """The attributes to call a kernel with: those that the node states, and defaults that the kernel asks for.

    Raises:
        UnsupportedOperator: The node states an attribute that the kernel does not take, and not its default.
    """
    node_attributes = dict(attributes(node))
    defaults = _defaults(node, opset)
    parameters = inspect.signature(forward).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return {**defaults, **node_attributes}
    accepted_names = {n for n, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    for attribute, value in node_attributes.items():
        if attribute not in accepted_names and not (attribute in defaults and defaults[attribute] == value):
            reason = f"{name}.forward has no keyword argument {attribute!r}, which is {value!r} here"
            raise UnsupportedOperator(str(node.name), operator_name(node), opset, reason)
    needed = {n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    return {
        **{n: v for n, v in defaults.items() if n in needed},
        **{n: v for n, v in node_attributes.items() if n in accepted_names},
    }


def check_inputs(
    forward: Callable[..., Any], inputs: Sequence[str | None], attributes: Mapping[str, Any], name: str, operator: str
) -> None:
    """Make sure that a kernel can be called with so many inputs, before it is.

    Raises:
        InvalidInput: It says what ``forward`` takes.
    """
    parameters = inspect.signature(forward)
    try:
        parameters.bind(*inputs, **attributes)
    except TypeError as error:
        input_names = ", ".join("(omitted)" if n is None else n for n in inputs)
        came = f"{name}.forward{parameters} does not take the {len(inputs)} input{'s' * (len(inputs) != 1)} of {operator}"
        raise InvalidInput(
            f"{came} ({input_names}): {error}", "a parameter for each input, in the operator's order"
        ) from error


def _defaults(node: ir.Node, opset: int) -> dict[str, Any]:
    operator_schema = None if function_of(node) is not None else schema(node, opset)
    if operator_schema is None:
        return {}
    named = {n: a.default_value for n, a in operator_schema.attributes.items() if a.default_value.name}
    default_node = ir.Node(
        "", "Defaults", [], [ir.serde.deserialize_attribute(proto) for proto in named.values()], num_outputs=1
    )
    return attributes(default_node)


def _constants(node: ir.Node) -> dict[str, np.ndarray]:
    arrays = {str(v.name): as_array(v) for v in node.inputs if v is not None}
    return {name: array for name, array in arrays.items() if array is not None}
