"""What a framework must offer: a device with arrays, an adapter that prepares networks, an executor that runs them.

`Watched` is an executor that tells a callback what it does. What `Executor.gradients` is asked for is checked in the same
way and the same words by every executor.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from time import perf_counter_ns
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions
from deep_bench.errors import InvalidArgument, InvalidInput, Stopped, Unsupported
from deep_bench.events import Callback, Moment, NodeEvent, NodeProfile
from deep_bench.fault import KnownFault
from deep_bench.graph import Network
from deep_bench.tensor import STRING, TensorSpec, as_float, is_float

A = TypeVar("A")
"""A framework's native array type."""


Mode = Literal["inference", "train"]
Form = Literal["native", "decomposed", "fallback"]


class Device(ABC, Generic[A]):
    """Where arrays live, and all that timing and comparing need of a framework's arrays."""

    @abstractmethod
    def from_numpy(self, array: np.ndarray) -> A:
        """A native array on this device with the contents of ``array``."""

    def adopt(self, array: np.ndarray) -> A:
        """The same, of an array that nobody changes any more: it may share its memory."""
        return self.from_numpy(array)

    @abstractmethod
    def to_numpy(self, array: A) -> np.ndarray:
        """The contents of a native array; never a view that a later call may overwrite."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when all work given to the device is done."""

    @property
    def xp(self) -> ArrayFunctions[A]:
        """The functions that an update rule is written with, for this device's arrays.

        Raises:
            Unsupported: There are none for them.
        """
        raise Unsupported(
            f"{type(self).__name__} has no functions of arrays",
            "a device with a property xp",
            "trace the update into the network: db.network.training_step",
        )


THROUGH_NUMPY = "a kernel of the user's, through NumPy"
"""How a node is run whose kernel does not take the framework's own arrays."""


@dataclass(frozen=True)
class Forms:
    """How an adapter runs each node of a network: the outermost graph's and all subgraphs'.

    Args:
        native: Names of nodes run by the framework's own code.
        decomposed: Names of nodes expanded into several native ones.
        fallback: Name to reason for nodes computed by the reference in NumPy.
    """

    native: tuple[str, ...] = ()
    decomposed: tuple[str, ...] = ()
    fallback: Mapping[str, str] = field(default_factory=dict)


class Adapter(Device[A]):
    """One framework, with its options as the constructor's keyword arguments.

    A subclass states its options in the signature of its constructor, with types, so that ``torch:threads=1`` can be read
    from a command line. It is final: share code by holding objects.
    """

    name: ClassVar[str]
    """The framework's name in the registry."""

    upgrades: ClassVar[bool] = True
    """Whether it runs the network in opset `OPSET` (True), or as the file has it (False).

    What runs files as they are may still upgrade those that its framework is too new for; nodes and outputs keep their
    names.
    """

    differentiates: ClassVar[bool] = False
    """Whether its executors' gradients are the framework's own (True), or those of the network that deep_bench derives."""

    known_faults: ClassVar[tuple[KnownFault, ...]] = ()
    """The framework's own faults, each shown by a script that does without deep_bench."""

    runs_kernels: ClassVar[bool] = False
    """Whether nodes that a kernel of the user's computes (`Network.replace`) are computed by it; else they are refused."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Kernels that an adapter does not know of are refused, and never ignored."""
        super().__init_subclass__(**options)
        prepare = cls.__dict__.get("prepare")
        if prepare is not None and not cls.runs_kernels:
            cls.prepare = _refusing_kernels(prepare)  # type: ignore[method-assign]

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Conformance case to the reason why it is wrong or fails here; each a fault of the framework."""
        return {case: fault.reason for fault in self.known_faults for case in fault.cases}

    @abstractmethod
    def prepare(self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None) -> Executor[A]:
        """Make a network ready to run here.

        Args:
            network: What to run. Dimensions that are fixed in it may be relied upon.
            mode: ``"inference"``, or ``"train"``: parameters may be assigned between calls.
            outputs: Names of values of the outermost graph to return instead of the network's outputs.

        Raises:
            UnsupportedOperator: A node cannot run here.
        """

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """The facts a report needs: ``version``, ``device``, ``threads``, ``precision``, and what else matters."""


def _refusing_kernels(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """A method ``prepare`` that takes no network with kernels."""

    @wraps(prepare)
    def checked(self: Any, network: Network, *arguments: Any, **options: Any) -> Any:
        kernels = network.kernels if isinstance(network, Network) else {}
        for node, kernel in kernels.items():
            raise Unsupported(
                f"{self.name} runs no kernels of others, and {kernel.name} computes the node {node!r} of {network.name}",
                "an adapter that does: the reference, torch, TensorFlow or ONNX Runtime",
                "prepare network.without_kernels()",
            )
        return prepare(self, network, *arguments, **options)

    return checked


class Executor(ABC, Generic[A]):
    """A network made ready on one device by one adapter."""

    device: Device[A]
    inputs: tuple[TensorSpec, ...]
    output_names: tuple[str, ...]
    parameters: MutableMapping[str, A]
    """The network's parameters, native; read and assigned without copying."""
    network: Network | None = None
    """What it runs; ``None`` of native code that no adapter made from a network."""
    forms: Forms
    events: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_CALL, Moment.AFTER_CALL})
    """The moments it can report: a fused graph, for one, has no nodes."""

    @abstractmethod
    def forward(self, inputs: Mapping[str, A]) -> dict[str, A]:
        """Run the network on native arrays; the outputs are fresh and stay valid."""

    @abstractmethod
    def bind(self, inputs: Mapping[str, A]) -> Callable[[], dict[str, A]]:
        """A call without arguments that runs the network on these inputs: what is timed.

        Its outputs are valid until the next call only, and on an asynchronous device only after ``synchronize``.
        """

    def gradients(
        self,
        inputs: Mapping[str, A],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, A], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, A]]:
        """Run the network on native arrays, and differentiate one of its outputs.

        Args:
            inputs: Name to native array.
            loss: Name of an output of one element.
            wrt: Names of parameters and inputs to differentiate with respect to; by default all parameters, or all
                floating-point inputs of a network that has none, as `deep_bench.network.differentiate` does.
            on_ready: Called with a name and its gradient as soon as that is final, so that it can be sent away meanwhile.

        Returns:
            The outputs, and the gradient of each of ``wrt``: of its shape, zeros where the loss does not depend on it.

        Raises:
            Unsupported: The executor was not prepared with ``mode="train"``, or a node has no gradient here.
            InvalidArgument: ``loss`` is no output of one element, or a name in ``wrt`` is no parameter or real input.
            InvalidInput: A missing or unknown input, or one of a wrong shape or element type; see
                `deep_bench.framework.check_native`.
        """
        del inputs, loss, wrt, on_ready
        raise Unsupported(f"{type(self).__name__} computes no gradients", "an executor with a method gradients")

    def profile(
        self, inputs: Mapping[str, A], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """Find out where the time of a call goes, node by node as far as the framework tells.

        Args:
            inputs: Name to native array.
            repeat: The number of observed calls, and of calls that nobody observes.
            loss: Name of an output of one element: the calls are of ``gradients``, forward and backward.
            wrt: As in `gradients`.

        Raises:
            Unsupported: The executor cannot tell; or there are no gradients.
        """
        del inputs, repeat, loss, wrt
        raise Unsupported(f"{type(self).__name__} cannot be profiled", "an executor with a method profile")

    def algorithms(self, inputs: Mapping[str, A]) -> Mapping[str, tuple[str, ...] | str]:
        """Run the network once, and find out what its libraries say that they ran for each node.

        Args:
            inputs: Name to native array.

        Returns:
            Name of each node of the outermost graph to the functions or kernels, in the libraries' own words; or to the
            reason why they are not known.

        Raises:
            Unsupported: The framework does not tell, or was not asked to when its process started; see
                `deep_bench.network.chosen_algorithms`.
        """
        del inputs
        raise Unsupported(f"{type(self).__name__} does not tell which algorithms its kernels use", "oneDNN, oneMKL or CUDA")

    def walk(self, inputs: Mapping[str, A], tell: Callable[[Moment, NodeEvent], None]) -> dict[str, A]:
        """Run the network as `forward` does, and tell before and after each node.

        Raises:
            Unsupported: The executor runs no nodes that it could tell of; its `events` say so.
        """
        del inputs, tell
        raise Unsupported(f"{type(self).__name__} tells of no nodes", f"one of {sorted(m.value for m in self.events)}")

    def watch(self, callback: Callback, moments: Iterable[Moment] | None = None) -> Executor[A]:
        """An executor that does the same, and tells a callback of it. This one stays as it is, and as fast.

        Args:
            callback: Told of each moment.
            moments: Which; all of `events` by default.

        Raises:
            Unsupported: A moment that this executor cannot report.

        Example:
            >>> import deep_bench as db
            >>> seen = []
            >>> executor = db.frameworks["reference"]().prepare(db.load("digits-cnn"))
            >>> watched = executor.watch(lambda moment, index, time_ns, data: seen.append(data.node), [Moment.AFTER_NODE])
            >>> _ = watched({"image": np.zeros((1, 1, 8, 8), np.float32)})
            >>> seen[:2]
            ['stem', 'stem_norm']
        """

        return Watched(self, callback, self.events if moments is None else moments)

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the network on NumPy arrays, by name, and return NumPy arrays.

        A sequence is a list of arrays, an empty optional is ``None``.

        Raises:
            InvalidInput: A missing or unknown name, or a wrong shape or element type.
        """
        checked = check_inputs(self.inputs, inputs)
        outputs = self.forward({name: map_arrays(self.device.from_numpy, value) for name, value in checked.items()})
        self.device.synchronize()
        return {name: map_arrays(self.device.to_numpy, value) for name, value in outputs.items()}


def map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with a function applied to its array, to each array of a sequence, or to none in an empty optional.

    Example:
        >>> map_arrays(lambda array: array + 1, [np.array(1), None])
        [np.int64(2), None]
    """
    if isinstance(value, list | tuple):
        return [map_arrays(function, item) for item in value]
    return None if value is None else function(value)


def as_declared(network: Network, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs with their floats in the element types that a network declares: another precision is judged by its values."""
    declared = {str(v.name): np.dtype(v.dtype.numpy()) for v in network.graph.outputs if v.dtype is not None}
    return {name: as_float(y, declared[name]) if name in declared else y for name, y in outputs.items()}


def check_inputs(specs: Sequence[TensorSpec], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as arrays, after each was compared with its declaration; sequences as lists, empty optionals as ``None``.

    Raises:
        InvalidInput: A missing or unknown name, or a wrong shape or element type.
    """
    check_input_names(specs, inputs)
    sizes: dict[str, int] = {}
    return {spec.name: _check_value(spec, inputs[spec.name], sizes) for spec in specs}


def check_input_names(specs: Sequence[TensorSpec], inputs: Mapping[str, Any]) -> None:
    """Whether there is one value for each declared input, and no other.

    Raises:
        InvalidInput: A missing or unknown name.
    """
    if isinstance(inputs, Mapping) and len(inputs) == len(specs) and all([s.name in inputs for s in specs]):  # noqa: C419
        return
    expected = "; ".join(map(str, specs))
    if not isinstance(inputs, Mapping):
        raise InvalidInput(f"inputs of type {type(inputs).__name__}", f"a mapping from name to array: {expected}")
    unknown = sorted(set(inputs) - {s.name for s in specs})
    missing = [s.name for s in specs if s.name not in inputs]
    came = f"unknown input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing"
    raise InvalidInput(came, expected, "name the arrays as the network's inputs are named")


def fits(spec: TensorSpec, shape: Sequence[int], sizes: dict[str, int]) -> bool:
    """Whether a shape is as declared; the sizes of open dimensions are noted in ``sizes``, and must stay the same.

    Example:
        >>> sizes: dict[str, int] = {}
        >>> x, y = (TensorSpec(name, ("n",), np.dtype("float32")) for name in "xy")
        >>> fits(x, (3,), sizes), fits(y, (4,), sizes), sizes
        (True, False, {'n': 3})
    """
    return len(shape) == spec.rank and all(
        d == (sizes.setdefault(s, d) if isinstance(s, str) else s) for s, d in zip(spec.shape, shape, strict=True)
    )


def _check_value(spec: TensorSpec, value: Any, sizes: dict[str, int]) -> Any:
    if value is None and "optional" in spec.containers:
        return None
    if "sequence" in spec.containers:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"input {spec.name!r} is a {type(value).__name__}", f"{spec}, as a list of arrays")
        return [_check_element(spec, f"{spec.name}[{index}]", item) for index, item in enumerate(value)]
    if value is None or (isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value)):
        raise InvalidInput(f"input {spec.name!r} is a {type(value).__name__}", f"{spec}, as one array")
    return _check_input(spec, np.asarray(value), sizes) if spec.is_tensor else _check_element(spec, spec.name, value)


def _check_element(spec: TensorSpec, name: str, value: Any) -> np.ndarray:
    """A tensor in a sequence or an optional: of the right element type, and of any shape."""
    array = np.asarray(value)
    return _check_input(TensorSpec(name, tuple(map(str, range(array.ndim))), spec.dtype), array, {})


def _check_input(spec: TensorSpec, array: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    came = f"input {spec.name!r} has {array.dtype}{list(array.shape)}"
    strings = spec.dtype == object and array.dtype.kind in "OUST"
    if spec.dtype == object and not (strings and all(isinstance(text, str | bytes) for text in array.ravel().tolist())):
        raise InvalidInput(came, f"{spec}: Python strings", "convert it: array.astype(str)")
    if array.dtype != spec.dtype and not strings:
        raise InvalidInput(came, str(spec), f"convert it: array.astype({str(spec.dtype)!r})")
    if not fits(spec, array.shape, sizes):
        sizes_text = f" with {', '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""
        raise InvalidInput(came, f"{spec}{sizes_text}", "change the array's shape, or the network's sizes")
    return array.astype(object) if strings else array


_NODES = frozenset({Moment.BEFORE_NODE, Moment.AFTER_NODE})


class Watched(Executor[A]):
    """Another executor, with a callback told of some of its moments.

    It holds the other one, which knows nothing of it: what nobody watches costs what it always did.

    Args:
        executor: What runs.
        callback: Told of each moment; when it returns ``True`` the run ends with `Stopped`.
        moments: Those to tell of.

    Raises:
        Unsupported: A moment that the executor cannot report.
    """

    def __init__(self, executor: Executor[A], callback: Callback, moments: Iterable[Moment]) -> None:
        requested = frozenset(moments)
        if unknown := requested - executor.events:
            raise Unsupported(
                f"{type(executor).__name__} cannot report {', '.join(sorted(m.value for m in unknown))}",
                f"some of {', '.join(sorted(m.value for m in executor.events))}",
                "watch fewer moments; the reference reports every node",
            )
        self.device, self.inputs, self.output_names = executor.device, executor.inputs, executor.output_names
        self.parameters, self.forms, self.network = executor.parameters, executor.forms, executor.network
        self._executor, self._callback, self._moments = executor, callback, requested
        self._calls = count()

    def forward(self, inputs: Mapping[str, A]) -> dict[str, A]:
        """Run the network and report."""
        if self._moments & _NODES:
            return self._call(lambda: self._executor.walk(inputs, self._numbered()))
        return self._call(lambda: self._executor.forward(inputs))

    def bind(self, inputs: Mapping[str, A]) -> Callable[[], dict[str, A]]:
        """A call that runs the network on these inputs and reports."""
        if self._moments & _NODES:
            return lambda: self.forward(inputs)
        return self._told(self._executor.bind(inputs))

    def gradients(
        self,
        inputs: Mapping[str, A],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, A], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, A]]:
        """Run and differentiate the network, and report the call.

        Raises:
            Unsupported: Nodes are watched: those of the way back are no nodes of the network.
        """
        if self._moments & _NODES:
            raise Unsupported("nodes are not reported while gradients are computed", "moments of calls only")
        return self._call(lambda: self._executor.gradients(inputs, loss, wrt=wrt, on_ready=on_ready))

    def profile(
        self, inputs: Mapping[str, A], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """The profile of the executor itself, without the callback."""
        return self._executor.profile(inputs, repeat=repeat, loss=loss, wrt=wrt)

    def algorithms(self, inputs: Mapping[str, A]) -> Mapping[str, tuple[str, ...] | str]:
        """That of the executor that is watched; the callback is not told of it."""
        return self._executor.algorithms(inputs)

    def _told(self, run: Callable[[], dict[str, A]]) -> Callable[[], dict[str, A]]:
        """A call that does the same as `_call`, with everything at hand that it needs: it is timed."""
        tell, numbers, clock = self._callback, self._calls, perf_counter_ns
        before, after = (moment if moment in self._moments else None for moment in (Moment.BEFORE_CALL, Moment.AFTER_CALL))

        def call() -> dict[str, A]:
            index = next(numbers)
            if before is not None and tell(before, index, clock(), None) is True:
                raise _stopped(before, index)
            result = run()
            if after is not None and tell(after, index, clock(), None) is True:
                raise _stopped(after, index)
            return result

        return call

    def _call(self, run: Callable[[], Any]) -> Any:
        index = next(self._calls)
        self._tell(Moment.BEFORE_CALL, index, None)
        result = run()
        self._tell(Moment.AFTER_CALL, index, None)
        return result

    def _numbered(self) -> Callable[[Moment, NodeEvent], None]:
        """What a walk tells: nodes are numbered as they begin; a subgraph's lie between those of the node around it."""
        numbers, begun = count(), list[int]()

        def tell(moment: Moment, event: NodeEvent) -> None:
            if moment is Moment.BEFORE_NODE:
                begun.append(next(numbers))
            self._tell(moment, begun[-1] if moment is Moment.BEFORE_NODE else begun.pop(), event)

        return tell

    def _tell(self, moment: Moment, index: int, data: NodeEvent | None) -> None:
        if moment in self._moments and self._callback(moment, index, perf_counter_ns(), data) is True:
            raise _stopped(moment, index, data)


def _stopped(moment: Moment, index: int, data: NodeEvent | None = None) -> Stopped:
    where = f"node {data.node!r}" if data is not None else f"call {index}"
    return Stopped(f"a callback stopped the run at {moment.value}, {where}")


Describe: TypeAlias = "Callable[[Any], tuple[Sequence[int], np.dtype] | None]"
"""From a native array to its shape and NumPy element type; ``None`` for what is no array of the framework."""


def describe_numpy(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """`Describe` of a framework whose native arrays are NumPy's.

    Example:
        >>> describe_numpy(np.zeros((2, 3))), describe_numpy([0.0])
        (((2, 3), dtype('float64')), None)
    """
    return (value.shape, value.dtype) if isinstance(value, np.ndarray | np.generic) else None


def names_once(wrt: Iterable[str]) -> tuple[str, ...]:
    """The names to differentiate with respect to, as a tuple.

    Raises:
        InvalidArgument: A string instead of a sequence of names, or a name that is there twice.

    Example:
        >>> names_once(["w", "b"])
        ('w', 'b')
    """
    if isinstance(wrt, str):
        raise InvalidArgument(f"wrt={wrt!r}, a string", "a sequence of names", f"write wrt=[{wrt!r}]")
    names = tuple(wrt)
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidArgument(f"{twice!r} is in wrt {names.count(twice)} times", "each name once")
    return names


def checked_request(
    whose: str,
    outputs: Collection[str],
    parameters: Collection[str],
    inputs: Sequence[TensorSpec],
    loss: str,
    wrt: Sequence[str] | None,
) -> tuple[str, ...]:
    """The names to differentiate with respect to: those asked for, or all parameters, or else all real inputs.

    Args:
        whose: Name of the network, for messages.
        outputs: Names of what the executor returns.
        parameters: Names of its parameters that have gradients.
        inputs: What it takes.
        loss: Name of the output to differentiate.
        wrt: The names asked for; ``None`` for all parameters, or all floating-point inputs where there are none.

    Raises:
        InvalidArgument: ``loss`` is no output; one of ``wrt`` is no parameter and no floating-point input; or a name is
            there twice.
    """
    if loss not in outputs:
        raise InvalidArgument(f"{whose} has no output {loss!r}", f"one of {', '.join(outputs)}", _nearest(loss, outputs))
    specs = {spec.name: spec for spec in inputs}
    real = [name for name, spec in specs.items() if spec.is_tensor and is_float(spec.dtype)]
    names = names_once((parameters or real) if wrt is None else wrt)
    differentiable = {*parameters, *real}
    for name in names:
        if name in differentiable:
            continue
        expected = f"some of {', '.join([*parameters, *real]) or '(none)'}"
        if name in specs:
            raise InvalidArgument(f"the input {specs[name]} of {whose} is no floating-point tensor", expected)
        came = f"{whose} has no parameter or floating-point input {name!r}"
        raise InvalidArgument(came, expected, _nearest(name, differentiable))
    return names


def check_native(
    specs: Sequence[TensorSpec], inputs: Mapping[str, Any], describe: Describe, working: np.dtype | None = None
) -> None:
    """Compare native arrays with the declarations of what they are fed to; nothing is copied or converted.

    Args:
        specs: The declarations.
        inputs: Name to native array; a sequence is a list of them, an empty optional is ``None``.
        describe: See `Describe`.
        working: An element type that floating-point inputs may have in place of the declared one: what an executor runs in.

    Raises:
        InvalidInput: A missing or unknown name, something that is no native array, or a wrong shape or element type.

    Example:
        >>> spec = TensorSpec("x", ("n", 2), np.dtype(np.float32))
        >>> check_native([spec], {"x": np.zeros((5, 2), np.float32)}, describe_numpy)
    """
    check_input_names(specs, inputs)
    sizes: dict[str, int] = {}
    for spec in specs:
        value = inputs[spec.name]
        if spec.is_tensor:
            shape = _checked_type(spec, spec.name, value, describe, working)
            if not fits(spec, shape, sizes):
                came = f"input {spec.name!r} has {spec.dtype}{list(shape)}"
                suffix = f" with {', '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""
                raise InvalidInput(came, f"{spec}{suffix}", "change the array's shape, or the network's sizes")
        elif "sequence" in spec.containers and value is not None:
            if not isinstance(value, list | tuple):
                raise InvalidInput(f"input {spec.name!r} is a {type(value).__name__}", f"{spec}, as a list of native arrays")
            for index, item in enumerate(value):
                _checked_type(spec, f"{spec.name}[{index}]", item, describe, working)
        elif value is not None:
            _checked_type(spec, spec.name, value, describe, working)
        elif "optional" not in spec.containers:
            raise InvalidInput(f"input {spec.name!r} is None", f"{spec}")


def _checked_type(spec: TensorSpec, name: str, value: Any, describe: Describe, working: np.dtype | None) -> Sequence[int]:
    """The shape of a native array of the right element type."""
    description = describe(value)
    if description is None:
        raise InvalidInput(
            f"input {name!r} is a {type(value).__name__}",
            f"{spec}, as a native array of the framework",
            "convert it: executor.device.from_numpy(array)",
        )
    shape, dtype = description
    strings = spec.dtype == STRING and dtype.kind in "OUST"
    if dtype == spec.dtype or strings or (working is not None and dtype == working and is_float(spec.dtype)):
        return shape
    raise InvalidInput(f"input {name!r} has {dtype}{list(shape)}", str(spec), "convert it to the declared element type")


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else ""
