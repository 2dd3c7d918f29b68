"""Anyone's distributed optimizer beside the reference of its scheme, rank by rank and step by step.

Usual mistakes are made in the reference on purpose, to say which one explains a wrong result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.check.arithmetic import Rounding, as_plain, disturb
from deep_bench.check.estimate import Expectation, Opinion, assess, pooled
from deep_bench.check.oracle import SAMPLES
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.errors import CommunicationFailed, DeepBenchError, InvalidArgument
from deep_bench.reference.distributed.averaged import AllReduce
from deep_bench.reference.distributed.neighbours import Gossip
from deep_bench.reference.distributed.scheme import Scheme
from deep_bench.reference.distributed.server import Asynchronous, StaleSynchronous

Arrays: TypeAlias = "dict[str, np.ndarray]"

_SHAPES = {"kernel": (4, 3, 2), "bias": (7,), "scalar": (), "late": (5, 6)}


@dataclass(frozen=True, eq=False)
class SchemeProblem:
    """Seeded parameters, gradients and samples.

    Args:
        size: The number of ranks.
        steps: Steps with gradients.
        quiet: Steps with gradients of 0 after these.
        dtype: The working format.
        parameters: Where all ranks begin.
        gradients: Of each step and rank.
        samples: Of each step and rank; ``None`` for a step in which nobody says how many there are.
    """

    size: int
    steps: int
    quiet: int
    dtype: np.dtype
    parameters: Arrays
    gradients: tuple[tuple[Arrays, ...], ...]
    samples: tuple[tuple[int, ...] | None, ...]


def drawn_problem(
    size: int, steps: int, quiet: int, dtype: np.dtype, seed: int, *, contracts: bool, weighted: bool = False
) -> SchemeProblem:
    """A problem on which schemes differ.

    Numbers are those of float32 in either format. One parameter begins at 0, so that it is nothing but steps; elements have
    sizes of their own, and signs that mostly stay, so that what is left out for several steps adds up.

    Args:
        size: The number of ranks.
        steps: Steps with gradients.
        quiet: Steps without, where the scheme contracts.
        dtype: The working format.
        seed: Of what is drawn.
        contracts: Whether it does.
        weighted: Whether ranks say how many samples they have, which are uneven then.
    """
    rng = np.random.default_rng([seed, size])
    parameters = {n: _drawn(rng, s) if n != "late" else np.zeros(s, np.float32) for n, s in _SHAPES.items()}
    leaning = [{n: _drawn(rng, s, spread=1.0) for n, s in _SHAPES.items()} for _ in range(size)]
    gradients = [
        tuple({n: lean[n] * (0.5 + rng.random(s, np.float32)) for n, s in _SHAPES.items()} for lean in leaning)
        for _ in range(steps)
    ]
    quiet = quiet if contracts else 0
    gradients += [tuple({n: np.zeros(s, np.float32) for n, s in _SHAPES.items()} for _ in range(size))] * quiet
    uneven = [tuple(int(n) for n in rng.integers(1, 9, size)) for _ in gradients]
    return SchemeProblem(
        size,
        steps,
        quiet,
        dtype,
        {n: np.asarray(x, dtype) for n, x in parameters.items()},
        tuple(
            tuple({n: np.asarray(g, dtype) for n, g in rank_gradients.items()} for rank_gradients in of_ranks)
            for of_ranks in gradients
        ),
        tuple(uneven) if weighted else (None,) * len(gradients),
    )


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], spread: float = 0.0) -> np.ndarray:
    sizes = 10.0 ** rng.uniform(-spread, spread, shape)
    return np.asarray(sizes * rng.standard_normal(shape), np.float32)


def expected(reference: Scheme, problem: SchemeProblem) -> list[list[Expectation]]:
    """What each rank's parameters may be after each step, as one vector: few elements are judged by their neighbours."""
    plain = trajectory(reference, problem)
    samples = []
    for number in range(SAMPLES["quick"]):
        rng = np.random.default_rng([number, problem.size])
        # Every second one makes the same errors in each step: where a step adds the same, it rounds alike.
        samples.append(trajectory(reference, problem, rng, alike=number % 2 == 1))
    return [
        [pooled(joined(x), [joined(s[step][rank]) for s in samples], problem.dtype) for rank, x in enumerate(of_ranks)]
        for step, of_ranks in enumerate(plain)
    ]


def joined(x: Arrays) -> np.ndarray:
    """All arrays one after the other, each row by row."""
    return np.concatenate([array.reshape(-1) for array in x.values()])


def trajectory(
    reference: Scheme, problem: SchemeProblem, rng: np.random.Generator | None = None, *, alike: bool = False
) -> list[list[Arrays]]:
    """Each rank's parameters after each step, in float64.

    Args:
        reference: The scheme.
        problem: What it runs on.
        rng: Where rounding errors are drawn from; none without it.
        alike: Draw the same ones in every step.
    """
    rounding = Rounding(problem.dtype, rng)
    start = {} if rng is None else rng.bit_generator.state
    held: list[Any] = [wide(problem.parameters, rounding) for _ in range(problem.size)]
    state, history = reference.init(held), []
    for gradients, samples in zip(problem.gradients, problem.samples, strict=True):
        if rng is not None and alike:
            rng.bit_generator.state = start
        slopes = [wide(arrays, rounding) for arrays in gradients]
        held, state = reference.step(slopes, counts(samples, problem.size), state, held)
        history.append([{name: np.asarray(as_plain(x)) for name, x in arrays.items()} for arrays in held])
    return history


def counts(samples: Sequence[int] | None, size: int) -> list[int]:
    """The samples of each rank: one each where nobody says."""
    return [1] * size if samples is None else list(samples)


def wide(x: Arrays, rounding: Rounding) -> dict[str, Any]:
    """Arrays in float64, which make rounding errors where these can be drawn."""
    if rounding.rng is None:
        return {name: array.astype(np.float64) for name, array in x.items()}
    return {name: disturb(array, rounding) for name, array in x.items()}


_CLOSE = 2.0**-16
"""How near to a mistake's result, relative to its largest element, the result must be for the mistake to explain it."""


_NEARER = 8.0
"""So many times nearer than to the right result: a mistake that changes nothing explains nothing."""


def suspected(reference: Scheme, problem: SchemeProblem, held: Sequence[Arrays], step: int) -> str:
    """The mistake that leads to these parameters, in words; the size of the error where none of the usual ones does.

    Args:
        reference: The scheme as it should be.
        problem: What it ran on.
        held: The parameters of all ranks after a step that is wrong.
        step: Its number, from 0.
    """
    short = replace(problem, gradients=problem.gradients[: step + 1], samples=problem.samples[: step + 1])
    error = _distance(held, trajectory(reference, short)[-1])
    for words, mistake in _mistakes(reference, short):
        distance = _distance(held, mistake())
        if distance <= _CLOSE and distance * _NEARER < error:
            return f"as if {words}"
    rounding = float(ml_dtypes.finfo(problem.dtype).eps) / 2
    return f"off by up to {error:.2g} of a parameter's largest element, where {problem.dtype} rounds by {rounding:.1g}"


def _distance(held: Sequence[Arrays], targets: Sequence[Arrays]) -> float:
    """The largest difference of an element, relative to the largest element of its parameter."""
    largest = 0.0
    for mine, target in zip(held, targets, strict=True):
        for name, x in target.items():
            off, scale = float(np.max(np.abs(mine[name] - x), initial=0.0)), float(np.max(np.abs(x), initial=0.0))
            largest = max(largest, off / scale if scale else np.inf if off else 0.0)
    return largest


def _mistakes(reference: Scheme, problem: SchemeProblem) -> Iterator[tuple[str, Callable[[], Sequence[Arrays]]]]:
    size = problem.size

    def run(scheme: Scheme, **changed: Any) -> Callable[[], Sequence[Arrays]]:
        return lambda: trajectory(scheme, replace(problem, **changed))[-1]

    for rank in range(size if size > 1 else 0):
        yield f"rank {rank}'s gradient counted as 0", run(reference, gradients=_without(problem, rank))
        yield f"rank {rank}'s gradient were left out", run(reference, samples=_weightless(problem, rank))
    summed = tuple(
        tuple({n: size * g for n, g in rank_gradients.items()} for rank_gradients in of_ranks)
        for of_ranks in problem.gradients
    )
    if size > 1:
        yield "gradients were added up without a mean", run(reference, gradients=summed)
        yield "all ranks had equally many samples", run(reference, samples=(None,) * len(problem.samples))
        if not isinstance(reference, AllReduce):
            yield "gradients were averaged and nothing else", run(AllReduce(reference.inner))
    state = reference.init([problem.parameters] * size)
    for part in state:
        if part != "steps":
            yield f"the scheme's {part!r} were forgotten after each step", run(_Forgetful(reference.inner, reference, part))


def _without(problem: SchemeProblem, rank: int) -> tuple[tuple[Arrays, ...], ...]:
    return tuple(
        tuple(g if i != rank else {n: np.zeros_like(x) for n, x in g.items()} for i, g in enumerate(of_ranks))
        for of_ranks in problem.gradients
    )


def _weightless(problem: SchemeProblem, rank: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(n if i != rank else 0 for i, n in enumerate(counts(samples, problem.size))) for samples in problem.samples
    )


@dataclass(frozen=True)
class _Forgetful(Scheme):
    """A scheme that begins each step with a part of its state as it was at first."""

    scheme: Scheme
    part: str

    def init(self, parameters: list[Arrays]) -> dict[str, Any]:
        return self.scheme.init(parameters)

    def step(
        self, gradients: list[Arrays], samples: list[int], state: dict[str, Any], parameters: list[Arrays]
    ) -> tuple[list[Arrays], dict[str, Any]]:
        forgotten = {**state, self.part: self.scheme.init(parameters)[self.part]}
        return self.scheme.step(gradients, samples, forgotten, parameters)


Make = Callable[[Communicator], DistributedOptimizer[Any, Any]]
Broadcast = Callable[[Communicator, Arrays], Arrays]


@dataclass(frozen=True, slots=True)
class SchemeFinding:
    """Something that is wrong.

    Args:
        ranks: With how many ranks.
        rank: On which; ``None`` for what concerns several.
        step: After which step, from 1; 0 before the first, ``None`` where it did not come so far.
        what: In words.
    """

    ranks: int
    rank: int | None
    step: int | None
    what: str

    def __str__(self) -> str:
        where = f"{self.ranks} ranks" if self.rank is None else f"rank {self.rank} of {self.ranks}"
        when = "" if self.step is None else f", step {self.step}" if self.step else ", before the first step"
        return f"{where}{when}: {self.what}"


@dataclass(frozen=True)
class SchemeReport:
    """What a check of a scheme found.

    Args:
        scheme: The optimizer's name.
        reference: The reference's.
        ranks: Numbers of ranks that it ran on.
        steps: Steps on each.
        findings: What is wrong.
        bits: The fewest significant bits of any parameter on any rank after any step.
    """

    scheme: str
    reference: str
    ranks: tuple[int, ...]
    steps: int
    findings: tuple[SchemeFinding, ...]
    bits: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __str__(self) -> str:
        ran = f"{self.scheme} beside {self.reference}, {', '.join(map(str, self.ranks))} ranks, {self.steps} steps each"
        if self.ok:
            return f"{ran}: rounding explains every difference ({self.bits:.1f} significant bits at least)"
        return "\n".join([f"{ran}:", *(f"- {finding}" for finding in self.findings)])


def check_scheme(
    make: Make,
    reference: Scheme,
    *,
    ranks: Sequence[int] = (1, 2, 3, 4),
    steps: int = 6,
    quiet: int = 4,
    broadcast: Broadcast | None = None,
    seed: int = 0,
) -> SchemeReport:
    """Run a distributed optimizer on ranks that are threads, and compare it with the reference.

    All ranks get seeded parameters, gradients and numbers of samples. With an odd number of ranks these are uneven, with an
    even one nobody says how many there were; where no number above 1 is odd, the last one runs with uneven samples as well.
    Every other step is announced by ``begin``. After every step, the parameters of every rank must be those of the
    reference, up to what rounding makes of it: the reference is evaluated in float64, and with random errors of the working
    format after each of its operations (`deep_bench.check`). The format is float32, and float64 with the last number of
    ranks; of schemes in which the smallest difference decides what is sent, only float64.

    Then the promise: ranks are bitwise equal whenever the reference says so, and where it says that they are pulled
    together, steps with gradients of 0 must at least halve their distance. Arrays that went in, and those that came out
    of an earlier step, must not change. Where a result is wrong, some usual mistakes are made in the reference, to see
    which one explains it.

    Args:
        make: From a communicator to the optimizer under test; its inner rule is the reference's.
        reference: The scheme as it should be.
        ranks: Numbers of ranks.
        steps: Steps with gradients.
        quiet: Further steps with gradients of 0, for schemes that pull ranks together.
        broadcast: What is to give all ranks rank 0's parameters: ranks then begin with different ones.
        seed: Of what is drawn.

    Returns:
        What is wrong, in words: for each number of ranks the first of its kind.

    Raises:
        InvalidArgument: No ranks or no steps.

    Example:
        >>> import deep_bench as db
        >>> from dataclasses import dataclass
        >>> from deep_bench.distributed.optimizer import DistributedOptimizer
        >>> from deep_bench.reference.distributed.averaged import AllReduce
        >>> @dataclass(frozen=True)
        ... class Sum(DistributedOptimizer):
        ...     def init(self, parameters, xp):
        ...         return self.inner.init(parameters, xp)
        ...     def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        ...         whole = {name: self.comm.allreduce(g) for name, g in gradients.items()}
        ...         return self.inner.update(whole, state, parameters, xp)
        >>> sgd = db.optimizers["sgd"](lr=0.1)
        >>> found = check_scheme(lambda comm: Sum(sgd, comm), AllReduce(sgd), ranks=(2,))
        >>> print(found.findings[0].what.split("; ")[-1])
        as if gradients were added up without a mean
    """
    if not ranks or min(ranks) < 1 or steps < 1 or quiet < 0:
        raise InvalidArgument(f"{list(ranks)} ranks, {steps} steps and {quiet} quiet ones", "numbers of at least 1, and 0")
    findings: list[SchemeFinding] = []
    fewest, names = float("inf"), set[str]()
    for size in ranks:
        for dtype, weighted in _ways(reference, size, ranks):
            contracts = reference.promise == "contracting"
            problem = drawn_problem(size, steps, quiet, np.dtype(dtype), seed, contracts=contracts, weighted=weighted)
            try:
                runs = run_local(size, partial(_run, make, problem, broadcast, names))
            except (CommunicationFailed, Unusable) as error:
                notes = getattr(error, "__notes__", [])
                run_findings = [SchemeFinding(size, None, None, "; ".join([str(error), *notes]))]
            else:
                wrong, bits = _differences(reference, problem, runs)
                fewest = min(fewest, bits)
                run_findings = [*_complaints(runs), *wrong, *_broken_promises(reference, problem, runs)]
            findings += run_findings
            if run_findings:
                break
    return SchemeReport(", ".join(names), type(reference).__name__, tuple(ranks), steps, tuple(findings), fewest)


def _ways(reference: Scheme, size: int, ranks: Sequence[int]) -> list[tuple[str, bool]]:
    """Element types, each with whether ranks say how many samples they have."""
    narrow = () if reference.decides else ("float32",)
    types = (*narrow, "float64") if reference.decides or size == ranks[-1] else narrow
    ways = [(dtype, size % 2 == 1) for dtype in types]
    if size == ranks[-1] > 1 and not any(count % 2 and count > 1 for count in ranks):
        ways.append((types[0], True))
    return ways


@dataclass
class _RankRun:
    """What one rank saw."""

    start: Arrays
    promise: str
    held: list[dict[str, np.ndarray]] = field(default_factory=list)
    complaints: dict[int, str] = field(default_factory=dict)


def _run(
    make: Make, problem: SchemeProblem, broadcast: Broadcast | None, names: set[str], comm: LocalCommunicator
) -> _RankRun:
    """All steps of one rank, which notes the scheme's name."""
    optimizer, rank = make(comm), comm.rank
    names.add(type(optimizer).__name__)
    held: Mapping[str, np.ndarray] = _copied(problem.parameters)
    if broadcast is not None:
        held = broadcast(comm, {name: np.asarray(x + rank, x.dtype) for name, x in held.items()})
    run = _RankRun(_copied(held), optimizer.promise)
    state = optimizer.init(held, NUMPY)
    before: list[tuple[Mapping[str, np.ndarray], Arrays]] = [(held, _copied(held))]
    for step, (gradients, samples) in enumerate(zip(problem.gradients, problem.samples, strict=True)):
        own_gradients, sample_count = _copied(gradients[rank]), None if samples is None else samples[rank]
        if step % 2 and (receiver := optimizer.begin(sample_count)) is not None:
            for name in reversed(list(own_gradients)):
                receiver(name, own_gradients[name])
        held, state = pair_of(optimizer.update(own_gradients, state, held, NUMPY, samples=sample_count), step)
        _check_usable(held, problem, step)
        run.held.append(_copied(held))
        if not _equal_arrays(own_gradients, gradients[rank]):
            run.complaints.setdefault(step + 1, "the gradients that were handed in have changed")
        if not all(_equal_arrays(*pair) for pair in before):
            run.complaints.setdefault(step + 1, "parameters of an earlier step have changed: their memory is used again")
        before.append((held, run.held[-1]))
    return run


class Unusable(DeepBenchError):
    """What an update returned, with which no further step can be taken."""


def pair_of(returned: Any, step: int) -> tuple[Any, Any]:
    """The parameters and the state that ``update`` returned in a step, counted from 0.

    Raises:
        Unusable: It returned something else.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        description = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        description = "None" if returned is None else description
        raise Unusable(f"update returned {description} in step {step + 1}", "the new parameters and the new state")
    parameters, state = returned
    arrays = parameters.values() if isinstance(parameters, Mapping) else [None]
    if not all(isinstance(x, np.ndarray | np.generic) for x in arrays):
        came = f"update returned a {type(parameters).__name__} for the new parameters in step {step + 1}"
        raise Unusable(came, "a dict of arrays by name")
    return parameters, state


def _check_usable(held: Mapping[str, Any], problem: SchemeProblem, step: int) -> None:
    came, declared = (
        {name: f"{name!r}: {x.dtype}{list(x.shape)}" for name, x in arrays.items()} for arrays in (held, problem.parameters)
    )
    if list(came) != list(declared):
        raise Unusable(f"step {step + 1} returned the parameters {', '.join(came)}", ", ".join(declared))
    for name, declaration in declared.items():
        if came[name] != declaration:
            raise Unusable(f"step {step + 1} returned {came[name]}", declaration)
        if lost := int(np.sum(~np.isfinite(held[name]))):
            raise Unusable(f"step {step + 1} returned {lost} elements of {name!r} that are not finite", "finite numbers")


def _copied(x: Mapping[str, Any]) -> Arrays:
    return {name: np.array(array) for name, array in x.items()}


def _equal_arrays(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name], equal_nan=True) for name in b)


def _complaints(runs: Sequence[_RankRun]) -> list[SchemeFinding]:
    """What ranks complained of, and different parameters at the start."""
    size = len(runs)
    findings = [
        SchemeFinding(size, rank, step, text)
        for rank, run in enumerate(runs)
        for step, text in list(run.complaints.items())[:1]
    ]
    for rank, run in enumerate(runs):
        if not _equal_arrays(run.start, runs[0].start):
            findings.append(SchemeFinding(size, rank, 0, "other parameters than rank 0: they were not broadcast"))
            break
    return findings


def _differences(reference: Scheme, problem: SchemeProblem, runs: Sequence[_RankRun]) -> tuple[list[SchemeFinding], float]:
    """The first step and rank at which parameters are not the reference's, and the fewest bits."""
    expectations, fewest = expected(reference, problem), float("inf")
    for step, of_ranks in enumerate(expectations):
        for rank, expectation in enumerate(of_ranks):
            opinion = assess(joined(runs[rank].held[step]), expectation)
            fewest = min(fewest, opinion.bits)
            if opinion.level != "clear":
                location = located(runs[rank].held[step], opinion, expectation)
                cause = suspected(reference, problem, [run.held[step] for run in runs], step)
                return [SchemeFinding(len(runs), rank, step + 1, f"{location}; {cause}")], fewest
    return [], fewest


def located(held: Mapping[str, np.ndarray], opinion: Opinion, wanted: Expectation) -> str:
    """Which elements of parameters are wrong, in words.

    Args:
        held: The parameters.
        opinion: What was found of all of them, one after the other.
        wanted: What these may be.
    """
    descriptions, begin = [], 0
    for name, x in held.items():
        part = slice(begin, begin + x.size)
        begin += x.size
        off = ~(np.abs(x.reshape(-1) - wanted.value[part]) <= _FAR * wanted.spread[part])
        if off.any():
            first = [int(i) for i in np.unravel_index(int(np.argmax(off)), x.shape)]
            descriptions.append(f"{name!r} is wrong: {int(off.sum())} of {off.size} elements, the first at {first}")
    return "; ".join(descriptions) or f"parameters have {opinion.bits:.1f} significant bits"


_FAR = 16.0
"""So many times its estimate an element is called wrong from; the verdict itself is that of `deep_bench.check`."""


def _broken_promises(reference: Scheme, problem: SchemeProblem, runs: Sequence[_RankRun]) -> list[SchemeFinding]:
    """Where ranks are not as far together as the scheme promises."""
    size = len(runs)
    if runs[0].promise != reference.promise:
        return [SchemeFinding(size, None, 0, f"promises {runs[0].promise!r}; the reference {reference.promise!r}")]
    for step in range(len(problem.gradients)):
        if reference.agreed(step + 1):
            for rank, run in enumerate(runs):
                if differing := [n for n, x in run.held[step].items() if not np.array_equal(x, runs[0].held[step][n])]:
                    message = f"{', '.join(map(repr, differing))} not bitwise equal to rank 0's, as is promised"
                    return [SchemeFinding(size, rank, step + 1, message)]
    if reference.promise == "contracting" and size > 1:
        before, after = _apart(runs, problem.steps - 1), _apart(runs, len(problem.gradients) - 1)
        if not after <= before / 2:
            message = (
                f"ranks are {after:.2g} apart, after {before:.2g}: {problem.quiet} steps without gradients did not halve it"
            )
            return [SchemeFinding(size, None, len(problem.gradients), message)]
    return []


def _apart(runs: Sequence[_RankRun], step: int) -> float:
    """The largest difference between ranks."""
    stacks = [np.stack([run.held[step][name] for run in runs]) for name in runs[0].held[step]]
    return max(float(np.max(np.ptp(stack, axis=0), initial=0.0)) for stack in stacks)


Record: TypeAlias = "list[tuple[int, int]]"
MakeAsynchronous: TypeAlias = "Callable[[Communicator, Record], DistributedOptimizer[Any, Any]]"
Held: TypeAlias = "dict[tuple[int, int | None], Arrays]"
"""Parameters by rank and number of its step, from 0; ``None`` for those after ``finish``."""


_PULL = 0.5


def check_asynchronous(
    make: MakeAsynchronous,
    reference: Asynchronous | StaleSynchronous | Gossip,
    *,
    ranks: Sequence[int] = (1, 2, 3, 4),
    steps: int = 4,
    orders: Sequence[int] = (0, 1, 2),
) -> SchemeReport:
    """Run an asynchronous optimizer on ranks that are threads, in orders that are drawn, and repeat each by the reference.

    Ranks take ``steps`` steps each, odd ones one more, and ``finish``; rank 0 serves where the scheme has a server. A
    gradient depends on the parameters it is computed at, so that staleness shows. Whoever knows the order of events records
    it: workers with the versions they had read, or pairs. The reference must allow that record; repeated by it, every rank
    must have held the same parameters after each of its steps, up to rounding (see `check_scheme`).

    Args:
        make: From a communicator and a list to the optimizer under test, which records into the list.
        reference: The scheme as it should be.
        ranks: Numbers of ranks.
        steps: Steps of each rank.
        orders: Seeds of the orders in which ranks go on.

    Raises:
        InvalidArgument: No ranks, no steps or no orders.

    Example:
        >>> import deep_bench as db
        >>> sgd = db.optimizers["sgd"](lr=0.1)
        >>> scheme = db.distributed_optimizers["asynchronous"]
        >>> check_asynchronous(lambda comm, log: scheme(sgd, comm, record=log), Asynchronous(sgd), ranks=(3,)).ok
        True
    """
    if not ranks or min(ranks) < 1 or steps < 1 or not orders:
        raise InvalidArgument(
            f"{list(ranks)} ranks, {steps} steps, {list(orders)} orders", "numbers of at least 1, an order"
        )
    findings: list[SchemeFinding] = []
    fewest, names = float("inf"), set[str]()
    for size in ranks:
        problem = drawn_problem(size, steps + 1, 0, np.dtype(np.float32), 0, contracts=False)
        for order in orders:
            record: Record = []
            try:
                runs = run_local(size, partial(_run_asynchronous, make, problem, record, steps, names), order=order)
            except (CommunicationFailed, Unusable) as error:
                message = "; ".join([str(error), *getattr(error, "__notes__", [])])
                findings.append(SchemeFinding(size, None, None, message))
                break
            held = {key: x for _, mine in runs for key, x in mine.items()}
            faults, bits = _judged(reference, problem, record, held)
            fewest = min(fewest, bits)
            if runs[0][0] != reference.promise:
                faults.insert(0, f"promises {runs[0][0]!r}; the reference {reference.promise!r}")
            findings += [SchemeFinding(size, None, None, f"order {order}: {fault}") for fault in faults[:1]]
            if faults:
                break
    return SchemeReport(", ".join(names), type(reference).__name__, tuple(ranks), steps, tuple(findings), fewest)


def _run_asynchronous(
    make: MakeAsynchronous, problem: SchemeProblem, record: Record, steps: int, names: set[str], comm: LocalCommunicator
) -> tuple[str, Held]:
    """What the scheme promises, and what one rank held; the scheme's name is noted."""
    optimizer, rank = make(comm, record), comm.rank
    names.add(type(optimizer).__name__)
    snapshots: Held = {}
    held: Any = {name: x.copy() for name, x in problem.parameters.items()}
    if optimizer.dedicated and comm.size > 1 and rank == 0:
        held, _ = optimizer.serve(held, NUMPY)
    else:
        state = optimizer.init(held, NUMPY)
        for step in range(steps + rank % 2):
            gradients = {n: np.asarray(g) for n, g in _slopes(problem.gradients[step][rank], held).items()}
            held, state = pair_of(optimizer.update(gradients, state, held, NUMPY), step)
            snapshots[rank, step] = {name: np.array(x) for name, x in held.items()}
        held, _ = optimizer.finish(state, held, NUMPY)
    snapshots[rank, None] = {name: np.array(x) for name, x in held.items()}
    return optimizer.promise, snapshots


def _slopes(drawn: Arrays, at: Arrays) -> Arrays:
    return {name: g + _PULL * at[name] for name, g in drawn.items()}


def _judged(reference: Any, problem: SchemeProblem, record: Record, held: Held) -> tuple[list[str], float]:
    """What is wrong with a run, and the fewest bits."""
    took = Counter(rank for rank, step in held if step is not None)
    if (step_counts := Counter(rank for rank, _ in record)) != took:
        return [f"steps recorded by rank: {dict(sorted(step_counts.items()))}; taken: {dict(sorted(took.items()))}"], 0.0
    try:
        plain = _replayed(reference, problem, record, None)
    except InvalidArgument as error:
        return [f"the record {record}: {error.came}"], 0.0
    samples = [_replayed(reference, problem, record, np.random.default_rng(n)) for n in range(SAMPLES["quick"])]
    fewest = float("inf")
    for (rank, step), expected in plain.items():
        expectation = pooled(joined(expected), [joined(s[rank, step]) for s in samples], problem.dtype)
        opinion = assess(joined(held[rank, step]), expectation)
        fewest = min(fewest, opinion.bits)
        if opinion.level != "clear":
            when = "after finish" if step is None else f"after its step {step + 1}"
            return [f"rank {rank} {when}: {located(held[rank, step], opinion, expectation)}"], fewest
    return [], fewest


def _replayed(reference: Any, problem: SchemeProblem, record: Record, rng: np.random.Generator | None) -> Held:
    """What ranks hold where the record is repeated in float64, with rounding errors if they can be drawn.

    What a worker got from a server after its last gradient is not recorded, and not here.
    """
    rounding = Rounding(problem.dtype, rng)

    def gradients_of(worker: int, parameters: Arrays, count: int) -> Arrays:
        return _slopes(wide(problem.gradients[count][worker], rounding), parameters)

    start, clocks = wide(problem.parameters, rounding), Counter[int]()
    snapshots: Held = {}
    if isinstance(reference, Gossip):
        events = reference.run(record, gradients_of, [start] * problem.size).parameters
        for event, (rank, _) in enumerate(record):
            snapshots[rank, clocks[rank]] = events[event + 1][rank]
            clocks[rank] += 1
        snapshots |= {(rank, None): x for rank, x in enumerate(events[-1])}
    else:
        versions = reference.run(record, gradients_of, start).versions
        for worker, version in record:
            if clocks[worker]:
                snapshots[worker, clocks[worker] - 1] = versions[version]
            clocks[worker] += 1
        snapshots |= {(rank, None): versions[-1] for rank in range(problem.size)}
    return {key: {name: np.asarray(as_plain(x)) for name, x in arrays.items()} for key, arrays in snapshots.items()}
