"""An operator in the place of a network's node: what executors call.

Arguments of kernels in a network must stay as they are: others read the same memory. NumPy arrays come read-only. Where
nothing keeps a kernel from writing (native code, tensors of torch), it gets copies in its first call with arrays of given
shapes, and is refused if it changes these: no other array is touched then.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.arrays import equal_arrays
from deep_bench.errors import DeepBenchError, InvalidInput, Unsupported, UnsupportedOperator
from deep_bench.framework import Describe, Device, describe_numpy
from deep_bench.graph import attributes, operator_name
from deep_bench.graph.node import Kernel, as_array, function_of, kernel_of
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import spelled
from deep_bench.operators.checks.finding import KernelFailure, in_a_line
from deep_bench.operators.operator import Host, Operator, keywords
from deep_bench.operators.results import NodeResults, fits
from deep_bench.tensor import STRING, TensorSpec

Arrays = tuple[Any, ...]


class Guard:
    """What one kernel is given.

    Args:
        to_numpy: Reads an array of its device.
    """

    def __init__(self, to_numpy: Callable[[Any], np.ndarray]) -> None:
        self._to_numpy = to_numpy
        self._seen: set[Any] = set()

    def given(self, groups: Groups) -> tuple[tuple[tuple[Any, ...], ...], bool]:
        """The arguments, NumPy's read-only, and whether they are copies: no arrays of such shapes were seen before."""
        if _forms(groups) in self._seen:
            return tuple(tuple(map(_read_only, group)) for group in groups), False
        return tuple(tuple(_read_only(_copied(x)) for x in group) for group in groups), True

    def changed(self, groups: Groups, given: Groups) -> tuple[int, int] | None:
        """The group and the place of the first argument whose copy is no longer like it.

        Where there is none, arrays of such shapes are given themselves from now on.
        """
        for g, (group, copies) in enumerate(zip(groups, given, strict=True)):
            for i, (x, copied) in enumerate(zip(group, copies, strict=True)):
                if _writable(x) and not equal_arrays(self._read(x), self._read(copied)):
                    return g, i
        self._seen.add(_forms(groups))
        return None

    def _read(self, x: Any) -> np.ndarray:
        return x if isinstance(x, np.ndarray) else np.asarray(self._to_numpy(x))


@dataclass
class Placed:
    """A kernel with one node's attributes, which are checked when it is made.

    Args:
        kernel: The node's; a copy of its own where it has a ``setup``, since that may hold what is made for one case.
        node: The node's name.
        operator: What it is meant to compute, as messages name it.
        opset: The version it is written in.
        attributes: What the kernel is called with.
        stated: What the node states.
        constants: The contents of each input where these never change.
        dtypes: The element type of each output, where it is known.
        computes: What it is meant to compute, for `Case`.
    """

    kernel: Kernel
    node: str
    operator: str
    opset: int | None
    attributes: Mapping[str, Any]
    stated: Mapping[str, Any]
    constants: Sequence[np.ndarray | None]
    dtypes: Sequence[np.dtype | None]
    computes: str | Callable[..., Any]
    _case: Any = field(default=None, init=False, repr=False)
    _results: NodeResults = field(init=False, repr=False)
    _guards: dict[str, Guard] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._results = NodeResults(self.computes, self.stated, len(self.dtypes), self._read)
        self._guards = {"forward": Guard(self._read), "backward": Guard(self._read)}

    @property
    def label(self) -> str:
        """The operator and the kernel, for messages about the node."""
        return f"{self.operator} by {self.kernel.name}"

    @property
    def device(self) -> Device[Any]:
        """Where the kernel's arrays live."""
        device: Device[Any] = self.kernel.device
        return device

    def forward(self, inputs: Sequence[Any], describe: Describe | None = None) -> Arrays:
        """The node's outputs, for arrays of the kernel's device.

        Args:
            inputs: One for each input of the node, ``None`` where it is omitted.
            describe: Tells shape and element type of such arrays; ``None`` converts them to find out.

        Raises:
            InvalidInput: The kernel returns something else than one array for each output, or another shape or element type.
            KernelFailure: It raises, or changes its inputs.
        """
        self._set_up(inputs, describe)
        result = self._called("forward", inputs)
        results = result if isinstance(result, tuple) else (result,)
        count = len(self.dtypes)
        if isinstance(result, list | dict) or len(results) != count or any(r is None for r in results):
            came = f"a tuple of {len(results)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
            expected = "an array" if count == 1 else f"a tuple of {count} arrays"
            raise InvalidInput(f"{self._where}: {self.kernel.name}.forward returned {came}", expected)
        if describe is not None:
            self._check(results, inputs, describe)
        return tuple(map(_unshared, results)) if getattr(self.kernel, "reuses_outputs", False) else results

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], describe: Describe | None = None
    ) -> Arrays:
        """The gradient of each input, ``None`` where there is none, for arrays of the kernel's device.

        Args:
            grads: The gradient of each output; ``None`` where nothing depends on it.
            inputs, outputs: Of `forward`.
            describe: As for `forward`.

        Raises:
            UnsupportedOperator: The kernel has no backward.
            InvalidInput: It returns something else than one entry for each input, or a gradient of another shape or element
                type.
            KernelFailure: It raises, or changes what it is given.
        """
        self.require_backward()
        self._set_up(inputs, describe)
        result = self._called("backward", grads, inputs, outputs)
        results = result if isinstance(result, tuple) else (result,)
        if isinstance(result, list | dict) or result is None or len(results) != len(inputs):
            came = f"a tuple of {len(results)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
            expected = f"a tuple with one array or None for each of the {len(inputs)} inputs"
            raise InvalidInput(f"{self._where}: {self.kernel.name}.backward returned {came}", expected)
        for index, (gradient, x) in enumerate(zip(results, inputs, strict=True)):
            if gradient is not None:
                self._check_gradient(index, gradient, x)
        return results

    @property
    def sets_up(self) -> bool:
        """Whether the kernel is set up for each case, and so may hold what is constant in it."""
        return _has_setup(self.kernel)

    def require_backward(self) -> None:
        """Make sure that there is a gradient.

        Raises:
            UnsupportedOperator: The kernel has no backward.
        """
        if not self.kernel.differentiates:
            reason = (
                f"the kernel {self.kernel.name} has no backward: override it, or differentiate network.without_kernels()"
            )
            raise UnsupportedOperator(self.node, self.operator, self.opset, reason)

    def forward_numpy(self, *arrays: Any) -> Arrays:
        """`forward` from and to NumPy arrays."""
        if isinstance(self.device, Host):
            return tuple(map(_settled, self.forward(arrays, describe_numpy)))
        native = self.forward(self._natives(arrays))
        self.device.synchronize()
        outputs = tuple(np.asarray(self.device.to_numpy(y)) for y in native)
        self._check(outputs, arrays, describe_numpy)
        return outputs

    def backward_numpy(self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Arrays:
        """`backward` from and to NumPy arrays."""
        if isinstance(self.device, Host):
            return self.backward(grads, inputs, outputs, describe_numpy)
        gradients = self.backward(self._natives(grads), self._natives(inputs), self._natives(outputs))
        self.device.synchronize()
        return tuple(None if g is None else np.asarray(self.device.to_numpy(g)) for g in gradients)

    def _called(self, method: str, *groups: Sequence[Any]) -> Any:
        """What a method of the kernel returns, for arrays that it cannot change."""
        guard = self._guards[method]
        arguments, copied = guard.given(groups)
        try:
            result = getattr(self.kernel, method)(*(arguments[0] if method == "forward" else arguments), **self.attributes)
        except DeepBenchError as error:
            error.add_note(f"in {self.kernel.name}, which computes {self._where}")
            raise
        except Exception as error:  # a kernel may raise anything
            expected = "arguments that stay as they are: they come read-only" if "read-only" in str(error) else ""
            raise KernelFailure(f"{self._where}: {self.kernel.name}.{method} raised {in_a_line(error)}", expected) from error
        changed = guard.changed(groups, arguments) if copied else None
        if changed is not None:
            group, index = changed
            kind = "input" if method == "forward" else ("the gradient of output", "input", "output")[group]
            came = f"{self._where}: {self.kernel.name}.{method} changes {kind} {index}"
            raise KernelFailure(came, "arguments that stay as they are: others read the same memory", "write to a copy")
        return result

    @property
    def _where(self) -> str:
        return f"node {self.node!r} ({self.operator})"

    def _read(self, array: Any) -> np.ndarray:
        return self.device.to_numpy(array)

    def _natives(self, arrays: Sequence[Any]) -> list[Any]:
        return [None if array is None else self.device.from_numpy(np.asarray(array)) for array in arrays]

    def _check(self, results: Arrays, inputs: Sequence[Any], describe: Describe) -> None:
        """Compare outputs with what the node gives for such inputs."""
        specs = self._results.of(inputs, self.constants, describe)
        for index, (array, dtype) in enumerate(zip(results, self.dtypes, strict=True)):
            description = describe(array)
            if description is None:
                raise InvalidInput(
                    f"{self._where}: {self.kernel.name}.forward returned a {type(array).__name__}",
                    f"an array of {type(self.device).__name__}",
                )
            spec = None if specs is None else specs[index]
            if dtype in (None, description[1], STRING) and (spec is None or fits(description[0], spec)):
                continue
            which = f" as output {index}" if len(results) > 1 else ""
            shape = "" if spec is None else f"[{', '.join('?' if isinstance(d, str) else str(d) for d in spec.shape)}]"
            raise InvalidInput(
                f"{self._where}: {self.kernel.name}.forward returned {description[1]}{list(description[0])}{which}",
                f"{description[1] if dtype is None else dtype}{shape}, as the node gives for "
                f"{self._listed(inputs, describe)}",
            )

    def _listed(self, inputs: Sequence[Any], describe: Describe) -> str:
        descriptions = [None if x is None else describe(x) for x in inputs]
        return ", ".join("(omitted)" if k is None else f"{k[1]}{list(k[0])}" for k in descriptions)

    def _check_gradient(self, index: int, gradient: Any, x: Any) -> None:
        if x is not None and hasattr(gradient, "shape") and tuple(gradient.shape) == tuple(x.shape):
            came, expected = getattr(gradient, "dtype", None), getattr(x, "dtype", None)
            if came == expected:
                return
            raise InvalidInput(
                f"{self._where}: {self.kernel.name}.backward returned a gradient of {came} for input {index}",
                f"{expected}, as the input",
            )
        description = (
            f"of shape {list(gradient.shape)}" if hasattr(gradient, "shape") else f"that is a {type(gradient).__name__}"
        )
        raise InvalidInput(
            f"{self._where}: {self.kernel.name}.backward returned a gradient {description} for input {index}",
            "nothing" if x is None else f"{list(x.shape)}, as the input",
        )

    def _set_up(self, inputs: Sequence[Any], describe: Describe | None) -> None:
        """Let the kernel compile or allocate what it needs for inputs of these shapes, as before the first of its calls."""
        if not _has_setup(self.kernel):
            return
        key = tuple(None if x is None else (tuple(x.shape), str(x.dtype)) for x in inputs)
        if key == self._case:
            return
        arguments = [self._argument(i, x, describe) for i, x in enumerate(inputs)]
        case = Case(self.computes, tuple(arguments), self.stated, outputs=len(self.dtypes), label=self.node)
        self.kernel.setup(case)  # type: ignore[attr-defined]
        self._case = key

    def _argument(self, index: int, x: Any, describe: Describe | None) -> Argument | None:
        if x is None:
            return None
        fixed = self.constants[index] if index < len(self.constants) else None
        description = describe(x) if describe is not None else describe_numpy(np.asarray(self.device.to_numpy(x)))
        if description is None or not all(isinstance(d, int) for d in description[0]):
            raise Unsupported(
                f"{self._where}: the sizes of input {index} are not known where {self.kernel.name} is set up",
                "a network of fixed sizes: network.with_sizes(…)",
            )
        spec = TensorSpec(f"x{index}", tuple(description[0]), description[1])
        identical = fixed is not None and fixed.shape == spec.shape and fixed.dtype == spec.dtype
        return Argument(spec, fixed if identical else None)


def placed(
    node: ir.Node,
    opset: int | None,
    constants: Sequence[np.ndarray | None] | None = None,
    dtypes: Sequence[np.dtype | None] | None = None,
) -> Placed:
    """The kernel of a node, checked against the attributes that the node states.

    Args:
        node: A node with a kernel, in the newest opset.
        opset: The version of its domain.
        constants: The contents of its inputs where they never change; by default of initializers and constants.
        dtypes: The element types of its outputs, where they are known.

    Raises:
        UnsupportedOperator: The kernel does not take an attribute that the node states.
    """
    kernel = kernel_of(node)
    assert kernel is not None
    arrays = [None if v is None else as_array(v) for v in node.inputs] if constants is None else list(constants)
    plain = spelled(node)
    return Placed(
        copy.copy(kernel) if _has_setup(kernel) else kernel,
        str(node.name),
        operator_name(node),
        opset,
        keywords(kernel.forward, node, opset or 1, kernel.name),
        attributes(node),
        arrays,
        list(dtypes) if dtypes is not None else [None] * len(node.outputs),
        function_of(node) or plain,
    )


def _settled(result: Any) -> np.ndarray:
    """An array that may be written to: what the kernel returned of its inputs is copied."""
    array = np.asarray(result)
    return array if array.flags.writeable else np.array(array)


def _unshared(array: Any) -> Any:
    """An array that no later call writes into: of NumPy or torch a copy; those of others cannot be written to."""
    if isinstance(array, np.ndarray):
        return np.array(array)
    return array.clone() if hasattr(array, "clone") else array


def _has_setup(kernel: Kernel) -> bool:
    return isinstance(kernel, Operator) and type(kernel).setup is not Operator.setup


Groups = Sequence[Sequence[Any]]


def _writable(x: Any) -> bool:
    return isinstance(x, np.ndarray) or hasattr(x, "clone")


def _forms(groups: Groups) -> Any:
    return tuple(tuple((x.shape, x.dtype) if _writable(x) else None for x in group) for group in groups)


def _copied(x: Any) -> Any:
    return np.array(x) if isinstance(x, np.ndarray) else x.clone() if _writable(x) else x


def _read_only(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or not x.flags.writeable:
        return x
    view = x.view()
    view.flags.writeable = False
    return view
