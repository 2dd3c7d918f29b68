"""Anyone's distributed optimizer beside the reference of its scheme, rank by rank and step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.check.assess import Opinion, assess
from deep_bench.check.estimate import Expectation
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.errors import CommunicationFailed, DeepBenchError, InvalidArgument
from deep_bench.reference.distributed.scheme import Scheme
from deep_bench.testing.scheme_problem import Arrays, Problem, drawn_problem, expected, joined
from deep_bench.testing.scheme_suspects import suspected

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
        >>> from deep_bench.reference.distributed.allreduce import AllReduce
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
                run_findings = [*_told(runs), *wrong, *_broken_promises(reference, problem, runs)]
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
class _Run:
    """What one rank saw."""

    start: Arrays
    promise: str
    held: list[dict[str, np.ndarray]] = field(default_factory=list)
    complaints: dict[int, str] = field(default_factory=dict)


def _run(make: Make, problem: Problem, broadcast: Broadcast | None, names: set[str], comm: LocalCommunicator) -> _Run:
    """All steps of one rank, which notes the scheme's name."""
    optimizer, rank = make(comm), comm.rank
    names.add(type(optimizer).__name__)
    held: Mapping[str, np.ndarray] = _copied(problem.parameters)
    if broadcast is not None:
        held = broadcast(comm, {name: np.asarray(x + rank, x.dtype) for name, x in held.items()})
    run = _Run(_copied(held), optimizer.promise)
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
        if not _same(own_gradients, gradients[rank]):
            run.complaints.setdefault(step + 1, "the gradients that were handed in have changed")
        if not all(_same(*pair) for pair in before):
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


def _check_usable(held: Mapping[str, Any], problem: Problem, step: int) -> None:
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


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name], equal_nan=True) for name in b)


def _told(runs: Sequence[_Run]) -> list[SchemeFinding]:
    """What ranks complained of, and different parameters at the start."""
    size = len(runs)
    findings = [
        SchemeFinding(size, rank, step, text)
        for rank, run in enumerate(runs)
        for step, text in list(run.complaints.items())[:1]
    ]
    for rank, run in enumerate(runs):
        if not _same(run.start, runs[0].start):
            findings.append(SchemeFinding(size, rank, 0, "other parameters than rank 0: they were not broadcast"))
            break
    return findings


def _differences(reference: Scheme, problem: Problem, runs: Sequence[_Run]) -> tuple[list[SchemeFinding], float]:
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


def _broken_promises(reference: Scheme, problem: Problem, runs: Sequence[_Run]) -> list[SchemeFinding]:
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


def _apart(runs: Sequence[_Run], step: int) -> float:
    """The largest difference between ranks."""
    stacks = [np.stack([run.held[step][name] for run in runs]) for name in runs[0].held[step]]
    return max(float(np.max(np.ptp(stack, axis=0), initial=0.0)) for stack in stacks)
