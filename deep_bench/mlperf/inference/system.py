"""``System``: what LoadGen's queries go to. A network in a framework is one; a class of your own may be another.

``Work`` is a network, the samples that it is fed, and what its answer to each is; ``Library`` has the samples of a data
set, loaded and unloaded as LoadGen asks. LoadGen can be told of nothing that goes wrong: it crashes, waits for ever, or
prints VALID instead.
"""

from __future__ import annotations

import json
import re
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclasses_replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Condition, Thread
from time import monotonic, perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported, WorkerError, shortened
from deep_bench.framework import Adapter, Executor, fits
from deep_bench.graph import Network, as_network
from deep_bench.mlperf.inference.settings import IN_MEMORY, Settings
from deep_bench.records.store import replace
from deep_bench.training.dataset import Dataset, labels_of
from deep_bench.training.sets import open_set
from deep_bench.variant import Variant

FILE = "fault.json"
"""Where the process under LoadGen leaves what ended it."""


_MOST_CHARACTERS = 20_000


class RunFailed(WorkerError):
    """A run under LoadGen that a fault of the system under test ended."""


def note(folder: Path, error: BaseException) -> None:
    """Leave a file for the process that started this one, which ends as soon as it is written."""
    kind = type(error).__name__
    content = {
        "kind": kind,
        "message": shortened(str(error) or kind, _MOST_CHARACTERS),
        "details": shortened("".join(traceback.format_exception(error)), _MOST_CHARACTERS),
    }
    replace(folder / FILE, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def noted(folder: Path) -> dict[str, str] | None:
    """What was left there: ``kind``, ``message`` and ``details``; ``None`` where nothing was, or a part of it only."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {key: str(content[key]) for key in ("kind", "message", "details")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


_AT_ONCE = 1024


class Library:
    """LoadGen's *query sample library*: only loaded samples are in memory, and only these may be asked for.

    Args:
        dataset: The samples.
        network: What they are fed to: each of its inputs is an array of the data set, by name.

    Raises:
        InvalidArgument: An input that the data set does not have, or of another type or shape.

    Example:
        >>> import deep_bench as db
        >>> library = Library(db.datasets["digits"]("test"), db.load("digits-cnn"))
        >>> library.load([3, 5])
        >>> library.gather([5, 3, 5])["image"].shape, library.loaded
        ((3, 1, 8, 8), 2)
    """

    def __init__(self, dataset: Dataset, network: Network) -> None:
        self._dataset = dataset
        self._names = tuple(spec.name for spec in network.inputs)
        _check(dataset, network)
        self._stacks: dict[str, np.ndarray] = {}
        self._rows: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def loaded(self) -> int:
        """How many samples are in memory."""
        return len(self._rows)

    def load(self, indices: Sequence[int]) -> None:
        """Bring samples into memory, in the place of those there.

        Raises:
            InvalidData: A sample that cannot be read.
        """
        numbers = np.unique(np.asarray(indices, np.int64))
        parts = [self._dataset[numbers[start : start + _AT_ONCE]] for start in range(0, len(numbers), _AT_ONCE)]
        self._stacks = {name: np.concatenate([part[name] for part in parts]) for name in self._names} if parts else {}
        self._rows = dict(zip(numbers.tolist(), range(len(numbers)), strict=True))

    def unload(self, indices: Sequence[int]) -> None:
        """Let samples go."""
        for index in indices:
            self._rows.pop(index, None)
        if not self._rows:
            self._stacks = {}

    def gather(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Loaded samples, stacked in this order; fresh arrays.

        Raises:
            RunFailed: A sample that is not loaded.
        """
        rows = self._rows_of(indices)
        return {name: stack[rows] for name, stack in self._stacks.items()}

    def fill(self, buffers: dict[str, np.ndarray], indices: Sequence[int]) -> None:
        """Copy loaded samples into the first rows of arrays, and the last of them into the rest.

        Raises:
            RunFailed: A sample that is not loaded.
        """
        rows = self._rows_of(indices)
        for name, buffer in buffers.items():
            stack = self._stacks[name]
            np.take(stack, rows, axis=0, out=buffer[: len(rows)])
            buffer[len(rows) :] = stack[rows[-1]]

    def _rows_of(self, indices: Sequence[int]) -> list[int]:
        try:
            return [self._rows[index] for index in indices]
        except KeyError as error:
            raise RunFailed(f"sample {error.args[0]}, which is not loaded", "one of the loaded samples") from None


def _check(dataset: Dataset, network: Network) -> None:
    if not len(dataset):
        raise InvalidData("a data set without samples", "at least one")
    first = dataset[np.zeros(1, np.int64)]  # what it gives, which preparation may have made another type
    for spec in network.inputs:
        sample = first.get(spec.name)
        if sample is None:
            came = f"the data set has no array {spec.name!r} for the input {spec}"
            available = ", ".join(f"{name}: {array.dtype}{list(array.shape[1:])}" for name, array in first.items())
            raise InvalidArgument(came, f"one of its arrays: {available}", "name the network's inputs as the data set does")
        fitting = spec.rank >= 1 and fits(dataclasses_replace(spec, shape=spec.shape[1:]), sample.shape[1:], {})
        if sample.dtype != spec.dtype or not fitting:
            came = f"samples of {spec.name}: {sample.dtype}{list(sample.shape[1:])} for the input {spec}"
            advice = "prepare them: --dataset recipe:NAME takes the samples that a recipe holds out, as it prepares them"
            raise InvalidArgument(came, "arrays of its type, and of its shape but the batch", advice)


EXPECTED = "an import path, such as my_package.serving:MySystem"
"""How a system is named."""


class Respond(Protocol):
    """Hands answers over: to be called from any thread, once for each sample, in any order and grouping."""

    def __call__(self, ids: Sequence[int], rows: NDArray[np.generic], /) -> None:
        """Answer samples: their ids, and an array with one row of the answer's bytes for each."""


class System(ABC):
    """A system under test. Subclass it to put something else than an executor under LoadGen.

    It is made by ``Kind(work)`` with a `deep_bench.mlperf.inference.system.Work`, in a process of its own, and named by
    its import path: ``run(…, system="my_package.serving:MySystem")``. Every exception that it raises, in any of its threads
    that it names, ends the run with that error.
    """

    threads: tuple[Thread, ...] = ()
    """Those that work for it: the run ends with an error when one dies."""

    @abstractmethod
    def start(self, library: Library, respond: Respond) -> None:
        """Make everything ready, warm up, and be ready for queries; not timed."""

    @abstractmethod
    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Take the samples of a query: answer them before this returns, or later from a thread.

        Args:
            ids: What to name them by in the answer.
            indices: Which samples of the library they are.
        """

    def flush(self) -> None:  # noqa: B027 (most have nothing to do)
        """Answer soon: no query follows for a while."""

    def stop(self) -> None:  # noqa: B027 (as above)
        """End all threads; nothing may be answered afterwards."""


DEFAULT_SETS = {"digits-cnn": "digits/test"}
"""Networks that ship, and the set that they are run on where none is named."""


_RECIPE = "recipe:"

ANSWER = np.dtype("<i8")
"""What is answered to a sample that is classified: its class."""


@dataclass(frozen=True)
class Work:
    """What is run.

    Args:
        network: The network.
        dataset: The samples.
        variant: The framework with its options.
        settings: How.
    """

    network: Network
    dataset: Dataset
    variant: Variant
    settings: Settings

    @property
    def model(self) -> str:
        """The network's name as LoadGen reads it: without white space."""
        return re.sub(r"[^\w.-]+", "_", self.network.name)

    @cached_property
    def output(self) -> str:
        """The output that answers are made of: the network's first."""
        return self.network.outputs[0].name

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each sample; ``None`` where nothing is classified.

        Samples are classified by a network whose first output is floating-point of rank 2, on a data set with classes.
        """
        first = self.network.outputs[0]
        if first.rank != 2 or first.dtype.kind != "f":
            return None
        try:
            return labels_of(self.dataset)
        except Unsupported:
            return None

    @property
    def fixed_batch(self) -> int | None:
        """The size of a batch that the network's inputs are fixed to, if they are.

        Raises:
            InvalidArgument: They are fixed to different sizes.
        """
        sizes = {spec.shape[0] for spec in self.network.inputs if isinstance(spec.shape[0], int)}
        if len(sizes) > 1:
            raise InvalidArgument(f"inputs of {self.network.name} with batches of {sorted(sizes)}", "one size for all")
        return sizes.pop() if sizes else None

    @property
    def in_memory(self) -> int:
        """How many samples are in memory at once."""
        return min(self.settings.performance_samples or IN_MEMORY, len(self.dataset))

    def answers(self, outputs: np.ndarray) -> NDArray[np.generic]:
        """What is told to LoadGen of each sample: its class, or else its output's bytes.

        Args:
            outputs: Of the first output, one a row.

        Example:
            >>> from deep_bench.mlperf.inference.settings import Settings
            >>> work = make_work("digits-cnn", "reference", None, Settings())
            >>> work.answers(np.array([[0.1, 2.0, 0.3]], np.float32))
            array([1])
        """
        if self.labels is not None:
            return outputs.argmax(axis=1).astype(ANSWER, copy=False)
        return np.ascontiguousarray(outputs)


def make_work(
    network: str | Path | Network, framework: str | Variant, dataset: str | None, settings: Settings, root: str | None = None
) -> Work:
    """Load all that a run needs.

    Args:
        network: One that ships, a file, or a network.
        framework: With its options, as on the command line.
        dataset: A set's name, a container's path, or ``recipe:NAME`` for the samples that a training recipe holds out, as it
            prepares them; networks that ship have one.
        settings: How it is run.
        root: The folder of data sets, for those that have files.

    Raises:
        InvalidArgument: No data set is named for a network that has none of its own.
        InvalidNetwork: The network cannot be used.
        InvalidData: The data are not there.
    """
    loaded = as_network(network)
    name = dataset or DEFAULT_SETS.get(loaded.name)
    if name is None:
        advice = "--dataset digits/test, or dataset='digits/test' in Python"
        raise InvalidArgument(f"no data set for {loaded.name}", "the name of a set, or the path of a container", advice)
    variant = framework if isinstance(framework, Variant) else Variant.parse(framework)
    return Work(loaded, _samples(name, root), variant, settings)


def _samples(name: str, root: str | None) -> Dataset:
    if not name.startswith(_RECIPE):
        return open_set(name, root)
    from deep_bench.training.recipes import load_recipe
    from deep_bench.training.workload import workload

    return workload(load_recipe(name.removeprefix(_RECIPE))).held_out


def facts_of(described: dict[str, Any]) -> dict[str, Any]:
    """An adapter's own facts as plain data."""
    return {name: value if isinstance(value, str | int | float | bool) else str(value) for name, value in described.items()}


_LARGE = 64
"""From this size on, a call takes about as much longer as its batch is larger."""


_CALLS = 6
"""With each size, until it is ready."""


def sizes_of(work: Work) -> list[int]:
    """The sizes of batches that are made ready before the test: powers of two and the largest, or the network's fixed one.

    Raises:
        InvalidArgument: Another batch than the network's fixed one.

    Example:
        >>> from deep_bench.mlperf.inference.settings import Settings
        >>> from deep_bench.mlperf.inference.system import make_work
        >>> sizes_of(make_work("digits-cnn", "reference", None, Settings("Offline", batch=6)))
        [1, 2, 4, 6]
    """
    size = work.fixed_batch
    if size is None:
        most = work.settings.most_at_once
        return sorted({most, *(2**k for k in range(most.bit_length()) if 2**k <= most)})
    if work.settings.batch not in (None, size):
        raise InvalidArgument(
            f"batch={work.settings.batch} of {work.network.name}", f"the network's own fixed batch, {size}"
        )
    return [size]


class BatchRunner:
    """Holds one executor, and a buffer of each size.

    Where a bound call follows what is written into its inputs, samples are copied there and the call is repeated; else each
    batch is handed to the framework anew. Which of the two is found out by trying, at `warm_up`.

    Args:
        work: What is run.
        adapter: The framework.
        executor: The network in it.
        library: The samples.
        sizes: Of batches, ascending.
    """

    def __init__(
        self, work: Work, adapter: Adapter[Any], executor: Executor[Any], library: Library, sizes: Sequence[int]
    ) -> None:
        self.executor = executor
        self._work, self._adapter, self._library = work, adapter, library
        self._sizes = list(sizes)
        self._buffers: dict[int, dict[str, np.ndarray]] = {}
        self._calls: dict[int, Callable[[], dict[str, Any]]] = {}

    @property
    def bound(self) -> bool:
        """Whether bound calls are used."""
        return bool(self._calls)

    def warm_up(self, indices: Sequence[int]) -> None:
        """Run each size, and see whether bound calls follow their inputs.

        Args:
            indices: Of loaded samples.
        """
        for size in self._sizes:
            buffers = {
                spec.name: np.zeros((size, *map(int, array.shape[1:])), spec.dtype)
                for spec, array in zip(self._work.network.inputs, self._library.gather(indices[:1]).values(), strict=True)
            }
            self._buffers[size] = buffers
            native = {name: self._adapter.adopt(buffer) for name, buffer in buffers.items()}
            call = self.executor.bind(native)
            if self._follows(size, call, indices):
                self._calls[size] = call
            self.answer(indices[:size])
            begin = perf_counter()
            self.answer(indices[:size])
            self._foresee(size, perf_counter() - begin)

    def _foresee(self, size: int, seconds: float) -> None:
        """See that the larger sizes will be ready in time, by how long a call of this one takes.

        Raises:
            RunFailed: They will not.
        """
        remaining = _CALLS * seconds * sum(larger for larger in self._sizes if larger > size) / size
        limit = self._work.settings.ready_s
        if size >= _LARGE and remaining > limit:
            most = self._sizes[-1]
            came = (
                f"batches of up to {most}: about {remaining:.0f} s until all sizes have run, as {size} takes {seconds:.2g} s"
            )
            raise RunFailed(came, f"at most {limit:g} s", "a smaller --batch, or a longer --stall")

    def answer(self, indices: Sequence[int]) -> NDArray[np.generic]:
        """The answers to loaded samples, at most as many as the largest size, once the device has made them.

        Raises:
            RunFailed: The network gave another number of rows.
        """
        size = next(size for size in self._sizes if size >= len(indices))
        buffers = self._buffers[size]
        self._library.fill(buffers, indices)
        outputs = self._run(size, self._calls.get(size))
        if len(outputs) != size:
            raise RunFailed(f"{len(outputs)} rows of {self._work.output!r} for a batch of {size}", "one for each sample")
        return self._work.answers(outputs[: len(indices)])

    def _run(self, size: int, call: Callable[[], dict[str, Any]] | None) -> np.ndarray:
        if call is None:
            native = {name: self._adapter.from_numpy(buffer) for name, buffer in self._buffers[size].items()}
            outputs = self.executor.forward(native)
        else:
            outputs = call()
        self._adapter.synchronize()
        return self._adapter.to_numpy(outputs[self._work.output])

    def _follows(self, size: int, call: Callable[[], dict[str, Any]], indices: Sequence[int]) -> bool:
        """Whether a bound call gives, for one sample after another, what an unbound one does."""
        outputs: list[np.ndarray] = []
        for index in indices[:8]:
            self._library.fill(self._buffers[size], [index])
            bound, anew = self._run(size, call), self._run(size, None)
            if not np.allclose(bound, anew, rtol=1e-3, atol=1e-5, equal_nan=True):
                return False
            outputs.append(anew)
            if not np.allclose(outputs[0], anew, rtol=1e-3, atol=1e-5, equal_nan=True):
                return True
        return False


_STOP_S = 10.0


class ExecutorSystem(System):
    """Answers with an executor in each of its threads.

    Args:
        work: What is run.

    Attributes:
        facts: What the framework says of itself.
        sizes: Of batches, ascending.
        runners: One for each thread; with ``workers=0``, the one that LoadGen's thread uses.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.facts: dict[str, Any] = {}
        self.adapter: Adapter[Any] | None = None
        self.runners: list[BatchRunner] = []
        self.sizes = sizes_of(work)
        self._queue: deque[tuple[int, int, float]] = deque()
        self._news = Condition()
        self._stopped = False

    def start(self, library: Library, respond: Respond) -> None:
        """Prepare an executor for each thread, run each size of batch, and start the threads."""
        self._respond = respond
        self.adapter = self.work.variant.create()
        count = self.work.settings.threads
        for _ in range(max(count, 1)):
            executor = self.adapter.prepare(self.work.network)
            self.runners.append(BatchRunner(self.work, self.adapter, executor, library, self.sizes))
        first = list(range(min(library.loaded, max(*self.sizes, 8))))
        for runner in self.runners:
            runner.warm_up(first)
        bound = sum(runner.bound for runner in self.runners)
        self.facts = {**facts_of(dict(self.adapter.describe())), "bound": bound == len(self.runners)}
        self.threads = tuple(Thread(target=self._serve, args=(runner,), daemon=True) for runner in self.runners[:count])
        for thread in self.threads:
            thread.start()

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Answer, or leave it to the threads."""
        if not self.threads:
            most = self.sizes[-1]
            for start in range(0, len(ids), most):
                part = slice(start, start + most)
                self._respond(ids[part], self.runners[0].answer(indices[part]))
            return
        timestamp = monotonic()
        with self._news:
            self._queue.extend(zip(ids, indices, [timestamp] * len(ids), strict=True))
            self._news.notify_all()

    def stop(self) -> None:
        """End the threads."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        for thread in self.threads:
            thread.join(_STOP_S)

    def _serve(self, runner: BatchRunner) -> None:
        while batch := self._next():
            ids, indices = [entry[0] for entry in batch], [entry[1] for entry in batch]
            self._respond(ids, runner.answer(indices))

    def _next(self) -> list[tuple[int, int, float]]:
        """The next samples to answer together: a full batch, or what has waited long enough; none after `stop`."""
        most, delay = self.sizes[-1], self.work.settings.max_delay
        with self._news:
            while not self._stopped:
                if not self._queue:
                    self._news.wait()
                    continue
                remaining = self._queue[0][2] + delay - monotonic()
                if len(self._queue) < most and remaining > 0:
                    self._news.wait(remaining)
                    continue
                batch = list(islice(self._queue, most))
                for _ in batch:
                    self._queue.popleft()
                return batch
        return []
