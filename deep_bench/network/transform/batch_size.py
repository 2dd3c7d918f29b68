"""``batch``: a network for batches of another size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network, NetworkLike, as_network, operator_name
from deep_bench.graph.drawing import choose_sizes, draw_inputs
from deep_bench.graph.node import is_standard
from deep_bench.network.transform.draft import Draft, runs
from deep_bench.network.transform.equivalence import Arrays, Call, Through, check

Shapes = dict[str, tuple[int, ...]]


def batch(
    network: NetworkLike, size: int, *, axes: Mapping[str, int] | None = None, verify: bool = True, seed: int = 0
) -> Network:
    """The network for batches of another size.

    Open batch dimensions are fixed. Where they are fixed already, the network is run on an example of the old size and one
    of the new size: the constant shapes of ``Reshape`` and ``Expand`` that hold the old size, and constant initial states of
    recurrent operators, are changed where the two differ. What comes out is checked: each sample of a batch must give what
    it gave before.

    Args:
        network: Any network, or its file.
        size: The new size.
        axes: Input to the axis of the batch; by default the first axis of every input.
        verify: Whether to check the result, with a few runs of the reference.
        seed: Of the inputs drawn for that.

    Raises:
        InvalidArgument: A size below one; an input or axis that is not there; or inputs without one common batch size.
        Unsupported: The old size is built into the network in another way.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> [str(spec) for spec in batch(network, 8, verify=False).inputs]
        ['image: float32[8, 1, 8, 8]']
    """
    network = as_network(network)
    if size < 1:
        raise InvalidArgument(f"a batch of {size}", "at least 1")
    chosen = _axes(network, axes)
    old = _old_size(network, chosen)
    if not isinstance(old, int):
        return network.with_sizes(dict.fromkeys(old, size))
    if old == size:
        return network
    return _BatchChange(network, chosen, old, size, seed).run(verify=verify)


def through_batch(network: NetworkLike, size: int, *, axes: Mapping[str, int] | None = None, seed: int = 0) -> Through:
    """How to check what `batch` made with these arguments: other samples fill the batch, and are dropped again.

    Args:
        network: The network before the change, or its file.
        size: The new size.
        axes: Input to the axis of the batch.
        seed: Of the samples that fill up a larger batch.
    """
    network = as_network(network)
    chosen = _axes(network, axes)

    def through(call: Call, inputs: Arrays) -> Mapping[str, Any]:
        old = next(inputs[name].shape[axis] for name, axis in chosen.items())
        if old == size:
            return call(inputs)
        shapes = {n: np.shape(y) for n, y in frameworks["reference"]().prepare(network)(inputs).items()}
        fillers = {n: np.random.default_rng(seed + 1).permuted(x, axis=None) for n, x in inputs.items() if n in chosen}
        parts = []
        for start in range(0, old, size):
            fed = dict(inputs)
            for name, axis in chosen.items():
                rows = np.take(inputs[name], range(start, min(start + size, old)), axis)
                filler_rows = np.take(fillers[name], [i % old for i in range(size - rows.shape[axis])], axis)
                fed[name] = np.concatenate([rows, filler_rows], axis)
            parts.append(call(fed))
        return {
            name: _cropped([np.asarray(p[name]) for p in parts], shape, name, old, size) for name, shape in shapes.items()
        }

    return through


def _cropped(parts: Sequence[np.ndarray], shape: tuple[int, ...], name: str, old: int, size: int) -> np.ndarray:
    """The samples of the old batch."""
    changed = [i for i, (a, b) in enumerate(zip(parts[0].shape, shape, strict=False)) if a != b]
    scaled = (
        len(changed) == 1 and parts[0].ndim == len(shape) and parts[0].shape[changed[0]] * old == shape[changed[0]] * size
    )
    if not scaled:
        raise Unsupported(
            f"the output {name!r} has shape {list(shape)} with a batch of {old}, {list(parts[0].shape)} with one of {size}",
            "one axis that grows with the batch",
            "outputs that mix the samples of a batch cannot be checked: verify=False",
        )
    axis = changed[0]
    return np.take(np.concatenate(parts, axis), range(shape[axis]), axis)


def _axes(network: Network, axes: Mapping[str, int] | None) -> dict[str, int]:
    specs = {s.name: s for s in network.inputs if s.is_tensor}
    if axes is None:
        return {s.name: 0 for s in specs.values() if s.rank}
    for name, axis in axes.items():
        if name not in specs or not 0 <= axis < specs[name].rank:
            raise InvalidArgument(
                f"axis {axis} of the input {name!r} of {network.name}", f"one of {'; '.join(map(str, specs.values()))}"
            )
    return dict(axes)


def _old_size(network: Network, axes: Mapping[str, int]) -> int | list[str]:
    """The size of the batch, or the names of its open dimensions."""
    batch_sizes = {s.name: s.shape[axes[s.name]] for s in network.inputs if s.name in axes}
    opened = [d for d in batch_sizes.values() if isinstance(d, str)]
    if opened:
        return opened
    if len(set(batch_sizes.values())) != 1:
        sizes = ", ".join(f"{name}: {size}" for name, size in batch_sizes.items()) or "no input has dimensions"
        raise InvalidArgument(
            f"{network.name} has no one batch axis ({sizes})",
            "inputs whose batch has the same size",
            "say which axis it is in which input: axes={'x': 0, 'state': 1}",
        )
    return int(next(iter(batch_sizes.values())))


class _BatchChange:
    """Runs a network on a larger batch, and mends what does not fit on the way."""

    def __init__(self, network: Network, axes: Mapping[str, int], old: int, size: int, seed: int) -> None:
        self.before, self.axes, self.old, self.size, self.seed = network, axes, old, size, seed
        self.draft = Draft(network, "batch")
        self.nodes = self.draft.nodes
        self.changed: dict[tuple[str, int], np.ndarray] = {}
        self.shapes: Shapes = {}

    def run(self, *, verify: bool) -> Network:
        """The network for the new size."""
        fixed = self.before.with_sizes(choose_sizes(self.before, {}).all)
        inputs = draw_inputs(fixed, self.seed)
        self._observe(inputs)
        outputs = self._mend(inputs)
        self._write(outputs)
        after = self.draft.finish()
        if verify:
            through = through_batch(self.before, self.size, axes=self.axes, seed=self.seed)
            assessment = check(self.before, after, inputs, through=through)
            if not assessment.ok:
                raise Unsupported(
                    f"{self.before.name} computes something else with a batch of {self.size}: "
                    f"{assessment.word}, {assessment.reason}",
                    "a network whose batch size is a dimension of its inputs, and of the shapes in its Reshape nodes",
                    "change its other shapes first, with replace(…)",
                )
        return after

    def _observe(self, inputs: Arrays) -> None:
        def note(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
            for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
                if name and isinstance(x, np.ndarray | np.generic):
                    self.shapes.setdefault(name, np.shape(x))

        with runs(self.before):
            frameworks["reference"]().prepare(self.draft.network).evaluate(inputs, observe=note)

    def _mend(self, inputs: Arrays) -> Mapping[str, Any]:
        """Run the new size, and note which constants must change."""
        fed = dict(inputs)
        for name, axis in self.axes.items():
            fed[name] = np.take(inputs[name], [i % self.old for i in range(self.size)], axis)
        reference: Any = frameworks["reference"]().prepare(self.draft.network)
        try:
            outputs: Mapping[str, Any] = reference.evaluate(fed, arithmetic=self._step)
        except Exception as error:  # NumPy raises whatever fits
            where = " ".join(getattr(error, "__notes__", []))
            raise Unsupported(
                f"{self.before.name} does not run with a batch of {self.size}: {error} {where}".strip(),
                f"a network in which {self.old} is only the size of its inputs and of shapes in Reshape nodes",
            ) from error
        return outputs

    def _step(self, step: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        node, arguments = step.node, list(inputs)
        positions, mend = _MENDED.get(node.op_type, ((), None)) if is_standard(node) else ((), None)
        for index in positions if node.name in self.nodes else ():
            if (
                mend is None
                or index >= len(arguments)
                or arguments[index] is None
                or not self._is_constant(node.name, index)
            ):
                continue
            growth = _ShapeGrowth(self.shapes[step.inputs[0]], arguments[0].shape, self.old, self.size)
            mended = mend(arguments[index], growth)
            if mended is None:
                raise Unsupported(f"input {index} of {operator_name(node)} holds other sizes than the batch's")
            if not np.array_equal(mended, arguments[index]):
                self.changed[node.name, index] = arguments[index] = mended
        return function(*arguments)

    def _is_constant(self, node: str, index: int) -> bool:
        return self.draft.constant(self.nodes[node].inputs[index]) is not None

    def _write(self, outputs: Mapping[str, Any]) -> None:
        graph, nodes = self.draft.graph, self.nodes
        for (name, index), array in self.changed.items():
            value = nodes[name].inputs[index]
            base = value.name if value is not None else name
            nodes[name].replace_input_with(index, self.draft.initializer(f"{base}.batch_{self.size}", array))
        for value in (v for node in graph for v in node.outputs):
            value.shape = None  # stated for the old size
        for value in graph.outputs:
            value.shape = ir.Shape(np.shape(outputs[str(value.name)]))
        for value in graph.inputs:
            if value.name in self.axes and value.shape is not None:
                dims = list(value.shape)
                dims[self.axes[str(value.name)]] = self.size
                value.shape = ir.Shape(dims)


@dataclass(frozen=True)
class _ShapeGrowth:
    """The shape of a node's first input with the old batch and with the new one."""

    before: tuple[int, ...]
    now: tuple[int, ...]
    old: int
    size: int


def _reshape(target: np.ndarray, growth: _ShapeGrowth) -> np.ndarray | None:
    """The shape of a ``Reshape``: its first multiple of the old size grows, unless a -1 before it does."""
    if np.prod(growth.before) == np.prod(growth.now):
        return target
    for index, dim in enumerate(target.tolist()):
        if dim == -1 or (dim == 0 and index < len(growth.now) and growth.before[index] != growth.now[index]):
            return target
        if dim > 0 and dim % growth.old == 0:
            changed = target.copy()
            changed[index] = dim // growth.old * growth.size
            return changed
    return None


def _expand(target: np.ndarray, growth: _ShapeGrowth) -> np.ndarray | None:
    """The shape of an ``Expand``: it follows the axes of its input that grew."""
    changed, before, current = target.copy(), growth.before, growth.now
    for axis in range(1, min(len(target), len(current)) + 1):
        if before[-axis] != current[-axis] and changed[-axis] == before[-axis]:
            changed[-axis] = current[-axis]
    return changed


def _state(state: np.ndarray, growth: _ShapeGrowth) -> np.ndarray | None:
    """The initial state of a recurrent operator, [directions, batch, hidden]: it grows if it is the same for all samples."""
    if state.shape[1] != growth.old or growth.before[1] == growth.now[1]:
        return state
    identical = all(np.array_equal(state[:, i], state[:, 0]) for i in range(growth.old))
    return np.repeat(state[:, :1], growth.size, axis=1) if identical else None


_MENDED: Mapping[str, tuple[tuple[int, ...], Callable[[np.ndarray, _ShapeGrowth], np.ndarray | None]]] = {
    "Expand": ((1,), _expand),
    "GRU": ((5,), _state),
    "LSTM": ((5, 6), _state),
    "RNN": ((5,), _state),
    "Reshape": ((1,), _reshape),
}
"""Operator to the inputs that may hold the batch size, and what becomes of them."""
