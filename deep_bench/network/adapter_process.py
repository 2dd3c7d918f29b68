"""A framework that may crash: it runs networks, and may give the values inside them.

It may be in a process of its own, as if it were in this one: what crashes there costs that framework only.
"""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.errors import DeepBenchError, WorkerDied, WorkerError
from deep_bench.framework import Adapter, Executor, Forms, Mode, map_arrays
from deep_bench.graph import Network
from deep_bench.graph.node import attach_kernels
from deep_bench.network.problem import pickled, unpickled
from deep_bench.variant import Variant
from deep_bench.workers.process import Worker, failure_text, with_details


def as_adapter(on: str | Variant | Adapter[Any]) -> Adapter[Any]:
    """The adapter that a variant, as it is written on the command line or parsed, stands for; or the adapter itself."""
    if isinstance(on, Adapter):
        return on
    return (Variant.parse(on) if isinstance(on, str) else on).create()


def called(on: str | Variant | Adapter[Any]) -> str:
    """What reports call it."""
    return on.name if isinstance(on, Adapter) else str(on)


def converts(on: str | Variant | Adapter[Any]) -> bool:
    """Whether it has a precision of its own, so that its floats are judged by their values, whatever their type."""
    if isinstance(on, Adapter):
        return False
    return "dtype" in (Variant.parse(on) if isinstance(on, str) else on).options


def as_given(on: str | Variant | Adapter[Any]) -> bool:
    """Whether it runs networks as their files have them, open dimensions included."""
    if isinstance(on, Adapter):
        return not on.upgrades
    return not frameworks[(Variant.parse(on) if isinstance(on, str) else on).framework].upgrades


@contextmanager
def failing(name: str) -> Iterator[None]:
    """What a framework raises inside: it cannot run the network that it was given.

    Args:
        name: The framework's.

    Raises:
        WorkerError: Anything but an error of deep_bench's was raised.
    """
    try:
        yield
    except DeepBenchError:
        raise
    except Exception as error:  # a framework may fail in any way
        line = " ".join(str(error).split())[:600]
        failure = WorkerError(f"{name}: it cannot run this network on these inputs: {type(error).__name__}: {line}")
        failure.details = "".join(traceback.format_exception(error))
        raise failure from error


class ProcessAdapter(Adapter[np.ndarray]):
    """Prepares and runs networks in a worker process, which is started anew when a network has ended it.

    Use it in a ``with`` statement, which ends the process.

    Args:
        variant: The framework with its options.
        limit: The most seconds a request may take; then the process is ended. None waits.

    Attributes:
        process: A lasting worker.

    Raises:
        InvalidArgument, UnknownName, FrameworkMissing: As `Variant.create`.

    Example:
        >>> import deep_bench as db
        >>> with ProcessAdapter(Variant.parse("reference")) as adapter:
        ...     executor = adapter.prepare(db.load("digits-cnn"))
        ...     executor({"image": np.zeros((2, 1, 8, 8), np.float32)})["logits"].shape
        (2, 10)
    """

    name = "apart"
    runs_kernels = True  # or not: the adapter there says so

    def __init__(self, variant: Variant, *, limit: float | None = None) -> None:
        label = str(variant)
        self.process = Worker(f"{__name__}:AdapterServer", {"variant": label}, label=label, limit_s=limit, lasting=True)
        self._made = 0
        self._unused: list[int] = []
        try:
            facts = self.ask("facts")
        except BaseException:
            self.close()
            raise
        self.upgrades = facts["upgrades"]  # type: ignore[misc]  # the adapter's there
        self.differentiates = facts["differentiates"]  # type: ignore[misc]

    def prepare(
        self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> ProcessExecutor:
        """Prepare a network there."""
        self._made += 1
        file = self.process.folder / f"{self._made}.onnx"
        network.without_kernels().save(file)
        arguments = (str(file), network.name, pickled(network), mode, None if outputs is None else list(outputs))
        executor = ProcessExecutor(self, self._made, arguments)
        weakref.finalize(executor, self._unused.append, self._made)
        executor.made()
        return executor

    def describe(self) -> Mapping[str, str]:
        """What the adapter there says."""
        return dict(self.ask("describe"))

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself: it goes to the process with the call."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def synchronize(self) -> None:
        """Nothing is left to wait for: results come as NumPy arrays."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the system there.

        Raises:
            DeepBenchError: What it raised of this kind.
            WorkerError: It raised anything else.
            WorkerDied: The process ended; the next call starts another.
        """
        label = self.process.label
        try:
            return self.process.call(method, *arguments)
        except WorkerDied:
            raise
        except WorkerError as error:
            message = failure_text(error, label)
            raise with_details(WorkerError(message.partition(": ")[2] or message), error) from error

    def forget(self) -> None:
        """Let go there of what was prepared and is used by nobody any more."""
        unused, self._unused[:] = list(self._unused), []
        for number in unused:
            for file in self.process.folder.glob(f"{number}.onnx*"):
                file.unlink()
        if unused:
            self.ask("forget", unused)

    def close(self) -> None:
        """End the process, for good."""
        self.process.close()

    def __enter__(self) -> ProcessAdapter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcessExecutor(Executor[np.ndarray]):
    """A network that is prepared in another process, and again in the next one should that end."""

    forms = Forms()

    def __init__(self, adapter: ProcessAdapter, number: int, arguments: tuple[Any, ...]) -> None:
        self.device = self._adapter = adapter
        self.inputs, self.output_names, self.parameters = (), (), {}
        self._number, self._arguments = number, arguments
        self._start = 0

    def made(self) -> int:
        """Its number there, once it is prepared in the process that runs now."""
        self._adapter.forget()
        self._adapter.process.start()
        if self._start != self._adapter.process.starts:
            self._adapter.ask("prepare", self._number, *self._arguments)
            self._start = self._adapter.process.starts
        return self._number

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it there."""
        return dict(self._adapter.ask("run", self.made(), dict(inputs)))

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run it there."""
        return self(inputs)

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """A call that runs it there."""
        return lambda: self(inputs)

    @property
    def code(self) -> str:
        """The framework's own code that the network was turned into; empty where its executor shows none."""
        return str(self._adapter.ask("code", self.made()))

    def gradients(
        self,
        inputs: Mapping[str, np.ndarray],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, np.ndarray], None] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Run and differentiate it there."""
        outputs, gradients = self._adapter.ask("gradients", self.made(), dict(inputs), loss, wrt and list(wrt))
        for name, gradient in gradients.items() if on_ready is not None else ():
            on_ready(name, gradient)  # type: ignore[misc]
        return outputs, gradients


class AdapterServer:
    """What the process holds: the adapter, and the networks that it has prepared.

    Args:
        variant: The framework with its options, as on the command line.
    """

    def __init__(self, variant: str) -> None:
        self._adapter = Variant.parse(variant).create()
        self._prepared: dict[int, Executor[Any]] = {}

    def facts(self) -> dict[str, bool]:
        """What is asked of an adapter before a network is prepared."""
        return {"upgrades": self._adapter.upgrades, "differentiates": self._adapter.differentiates}

    def describe(self) -> dict[str, str]:
        """The adapter's own facts."""
        return dict(self._adapter.describe())

    def prepare(
        self,
        number: int,
        file: str,
        name: str,
        kernels: Mapping[str, bytes] = MappingProxyType({}),
        mode: Mode = "inference",
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Prepare the network in a file, under a number."""
        network = Network(ir.load(file), name=name)
        attach_kernels(network.all_nodes(), unpickled(kernels))
        self._prepared[number] = self._adapter.prepare(network, mode=mode, outputs=outputs)

    def run(self, number: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run one of them."""
        with np.errstate(all="ignore"):
            return self._prepared[number](inputs)

    def gradients(
        self, number: int, inputs: Mapping[str, np.ndarray], loss: str, wrt: Sequence[str] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The outputs and gradients of one of them."""
        adapter = self._adapter
        with np.errstate(all="ignore"):
            native = {name: adapter.from_numpy(array) for name, array in inputs.items()}
            outputs, gradients = self._prepared[number].gradients(native, loss, wrt=wrt)
            adapter.synchronize()
            as_arrays = {n: map_arrays(adapter.to_numpy, y) for n, y in outputs.items()}
            return as_arrays, {n: np.array(adapter.to_numpy(g)) for n, g in gradients.items()}

    def code(self, number: int) -> str:
        """The framework's own code of one of them."""
        return code_of(self._prepared[number])

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of some."""
        for number in numbers:
            self._prepared.pop(number, None)


def code_of(executor: Executor[Any]) -> str:
    """The framework's own code that a network was turned into; empty where the executor shows none."""
    if isinstance(executor, ProcessExecutor):
        return executor.code
    return str(getattr(getattr(executor, "module", None), "code", "")).strip()
