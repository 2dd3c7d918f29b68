"""``StepDraft``: a graph that is becoming a training step: inputs that are handed on from one step to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.arrays import NUMPY, Path, grown, leaves
from deep_bench.graph import Network
from deep_bench.graph.knowledge import Knowledge
from deep_bench.graph.upgrade.edit import Names
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.network.tracing import Tracer
from deep_bench.network.update_rule import UpdateRule, check_state, check_types, prepared, updated

_WORKING = np.dtype(np.float32)
"""What narrower parameters are updated in."""


class StepDraft:
    """A graph with its nodes so far, and what its inputs are at first and afterwards.

    Args:
        network: What is there already; its graph is changed.

    Attributes:
        following, initial: As in `deep_bench.network.TrainingStep`.
        state: The input of each leaf of the optimizer's state, once there is one.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.graph = network, network.graph
        self.names = Names(network)
        self.tape = Tape(self.graph, self.names, Knowledge(network), "update")
        self.following: dict[str, str] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.state: dict[Path, str] = {}
        self._free: dict[str, Symbol] = {}

    def feed(self, name: str) -> Symbol:
        """Turn an initializer into an input."""
        value = self.graph.initializers.pop(name)
        assert value.const_value is not None
        self.initial[name] = value.const_value.numpy()
        value.const_value = None
        return self._fed(value)

    def add(self, name: str, array: np.ndarray) -> Symbol:
        """A new input that is handed on."""
        name = self.names.fresh(name)
        self.initial[name] = array
        return self.free(name, array.dtype, array.shape)

    def free(self, name: str, dtype: np.dtype, shape: tuple[int, ...] = ()) -> Symbol:
        """A new input that the caller feeds in every step; the same one for the same name."""
        if name not in self._free:
            kind = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
            value = ir.Value(name=name, type=kind, shape=ir.Shape(shape))
            self.tape.knowledge.state(value, ir.to_proto(value).type)
            self._free[name] = self._fed(value)
        return self._free[name]

    def _fed(self, value: ir.Value) -> Symbol:
        if value not in self.graph.inputs:
            self.graph.inputs.append(value)
        return Symbol(self.tape, value)

    def follow(self, before: Symbol, after: Symbol) -> None:
        """Return ``after``, which takes the place of ``before`` in the next step."""
        name = str(before.value.name)
        output = self.tape.Identity(after.cast(before)).value
        output.name = self.names.fresh(f"{name}.next")
        output.type, output.shape = before.value.type, before.value.shape
        self.graph.outputs.append(output)
        self.following[name] = output.name

    def trace(self, rule: UpdateRule, parameters: Mapping[str, Symbol], gradients: Mapping[str, Symbol]) -> None:
        """Write an optimizer's update of parameters that are inputs.

        Parameters of less than 32 bits are updated in float32.

        Raises:
            InvalidArgument: The rule forgets a parameter or a part of its state, or gives a parameter another element type.
        """
        xp = Tracer(self.tape, lambda name: self.free(name, _WORKING))
        start = rule.init({name: _wide(self.initial[name]) for name in parameters}, NUMPY)
        held = {path: self.add(_named(path, parameters), leaf) for path, leaf in leaves(start).items()}
        state = grown(held) if held else {}
        points = prepared(rule, parameters, state)
        for name, w in parameters.items():
            if points[name] is not w:
                self._evaluate_at(w, points[name])
        wide = {name: _widened(w) for name, w in parameters.items()}
        new, after = updated(rule, {n: gradients[n].cast(wide[n]) for n in wide}, _like(start, state), wide, xp)
        check_types(rule, wide, new, xp)
        new_leaves = leaves(after)
        check_state(rule, list(held), new_leaves)
        for path in [path for path, before in held.items() if _counts_for_nothing(before, new_leaves[path])]:
            self._drop(held.pop(path), new_leaves[path])
        for name, w in parameters.items():
            self.follow(w, new[name])
        for path, before in held.items():
            self.follow(before, xp.array(new_leaves[path]))
        self.state = {path: str(before.value.name) for path, before in held.items()}

    def _drop(self, before: Symbol, after: Symbol) -> None:
        """Do without a count."""
        counting = after.value.producer()
        assert counting is not None
        self.graph.remove(counting, safe=True)
        self.graph.inputs.remove(before.value)
        del self.initial[str(before.value.name)]

    def _evaluate_at(self, w: Symbol, point: Symbol) -> None:
        """Let what is there already take another value than the parameter itself."""
        point = point.cast(w)
        written = set(self.tape.written)
        for use in tuple(w.value.uses()):
            if use.node not in written:
                use.node.replace_input_with(use.idx, point.value)
        self.graph.sort()


def _counts_for_nothing(before: Symbol, after: Symbol) -> bool:
    """Whether all that becomes of a number of steps is the next one."""
    users = {use.node for use in before.value.uses()}
    return before.dtype == np.int64 and users == {after.value.producer()} and not after.value.uses()


def _like(start: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with the branches that have no leaves."""
    return {k: _like(v, state.get(k, {})) if isinstance(v, Mapping) else state[k] for k, v in start.items()}


def working_type(dtype: np.dtype) -> np.dtype:
    """What parameters of an element type are updated in: float32 at least.

    Example:
        >>> working_type(np.dtype("float16")), working_type(np.dtype("float64"))
        (dtype('float32'), dtype('float64'))
    """
    return max(dtype, _WORKING, key=lambda candidate: candidate.itemsize)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(working_type(array.dtype), copy=False)


def _widened(w: Symbol) -> Symbol:
    return w.cast(working_type(w.dtype))


def _named(path: Path, parameters: Mapping[str, Any]) -> str:
    """The input of a leaf: what belongs to a parameter starts with its name."""
    *before, last = path
    return ".".join([last, *before] if last in parameters else path)
