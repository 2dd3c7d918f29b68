"""Whether a kernel's results are right: for numbers of all kinds, wherever its inputs lie, and for any size.

Sizes are those of cases like the given one, with dimensions of one and of zero elements. Results for NaN and infinities
are judged where they follow from the operator's formula.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from deep_bench.check.judge import judge
from deep_bench.check.oracle import Effort, Truth
from deep_bench.check.subject import SubjectCalls
from deep_bench.check.verdict import Verdict
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network, operator_name
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case, label_of
from deep_bench.operators.case_schema import row_of
from deep_bench.operators.checks.arrays import Arrangement, available_layouts
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.problem import NAN, Prepared, Problem, finding_of, posed
from deep_bench.operators.draws import DISTRIBUTIONS, draw_of
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float


def defines_special(case: Case) -> bool:
    """Whether the operator's definition says what it gives for NaN and infinities; a function of the user's says it itself.

    Example:
        >>> defines_special(Case.of("Add", (2,), (2,))), defines_special(Case.of("Gelu", (2,)))
        (True, False)
    """
    return not isinstance(case.operator, str) or row_of(case.operator).defines_special


def passes_nan(case: Case, truth: Truth) -> bool:
    """Whether an operator gives NaN for NaN, as its reference does, and nothing else but floating-point numbers.

    Args:
        case: The case.
        truth: Of inputs with NaN in them.
    """
    outputs = [np.asarray(y) for y in truth.outputs.values()]
    if row_of(case.operator).interpolates or not all(is_float(y.dtype) for y in outputs):
        return False
    return any(bool(np.isnan(y.astype(np.float64)).any()) for y in outputs)


ROUNDS: Mapping[Effort, int] = {"quick": 1, "full": 3}
"""How many inputs of each distribution are tried."""


_ORDER = ("normal", "wide", "ties", "tiny", "huge", "special")

_BY_RANGE = {
    "tiny": "it has lost bits on tiny inputs only: intermediate results underflow",
    "huge": "it has lost bits on huge inputs only: intermediate results overflow, or are cut off",
}

Arrange = Callable[[Prepared, Mapping[str, np.ndarray]], Mapping[str, Any]]


def forward_check(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    seed: int = 0,
    effort: Effort = "quick",
    distributions: Sequence[str] | None = None,
) -> Finding:
    """Whether a kernel's results are those of its reference but for rounding, on fresh inputs of several distributions.

    Each output is judged by the estimate of rounding errors; its shape and element type must be the reference's.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: ``"full"`` tries three inputs of each distribution, and estimates from more evaluations.
        distributions: Some of `deep_bench.operators.draws.DISTRIBUTIONS`; all by default, infinities only where the operator
            defines what it gives for them, and elsewhere NaN alone, if the reference gives NaN for it.

    Example:
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> forward_check(Doubled(), Case.of(Doubled().target, (2, 3))).word
        'right'
    """
    problem = posed(case, seed, effort)
    chosen = [d for d in _ORDER if d in DISTRIBUTIONS] if distributions is None else distributions
    parts = [
        _on(operator, problem, distribution, number, explicit=distributions is not None)
        for distribution in chosen
        for number in range(ROUNDS[problem.effort])
    ]
    if distributions is None:
        parts += filter(None, (_on_nan(operator, problem, number) for number in range(ROUNDS[problem.effort])))
    return combined("forward", problem.name, _explained(parts), "no distribution was asked for")


def _explained(parts: list[Finding]) -> list[Finding]:
    """Who computes as precisely as it states on normal inputs does so on others too: there it loses bits by their range."""
    if not any(p.place.startswith("normal") and p.word == "right" for p in parts):
        return parts
    reasons = [_BY_RANGE.get(p.place.split()[0], "") if p.word == "reduced precision" else "" for p in parts]
    return [replace(p, reason=reason) if reason else p for p, reason in zip(parts, reasons, strict=True)]


def _on(operator: Operator[Any], problem: Problem, distribution: str, number: int, *, explicit: bool) -> Finding:
    place = f"{distribution} inputs"
    if distribution == "special" and not explicit and not defines_special(problem.case):
        reason = f"infinities, since the standard leaves open what {problem.case.op_type} gives for them"
        return Finding("forward", problem.name, "not applicable", reason, place=place)
    try:
        truth = problem.truth(distribution, number)
    except DeepBenchError as error:
        reason = f"there are no {distribution} inputs for it: {error.came}"
        return Finding("forward", problem.name, "not applicable", reason, place=place)
    return finding_of("forward", problem, lambda: judged_finding("forward", operator, problem, truth, place), place)


def _on_nan(operator: Operator[Any], problem: Problem, number: int) -> Finding | None:
    """What is said of NaN among numbers; ``None`` where the special inputs have asked already all that can be asked."""
    place = "inputs with NaN"
    try:
        truth: Truth | None = problem.truth(NAN, number)
    except Exception:  # a reference may refuse NaN in any way: then it is not asked
        truth = None
    if truth is not None and passes_nan(problem.case, truth):
        return finding_of("forward", problem, lambda: judged_finding("forward", operator, problem, truth, place), place)
    if defines_special(problem.case):
        return None
    reason = f"NaN, for which {problem.case.op_type} does not give NaN wherever it reads it"
    return Finding("forward", problem.name, "not applicable", reason, place=place)


def judged_finding(
    name: str,
    operator: Operator[Any],
    problem: Problem,
    truth: Truth,
    place: str,
    arrange: Arrange = Prepared.native,
) -> Finding:
    """What the checker says of the kernel's answer to the inputs of ``truth``, which may lie in memory as they like."""

    def run(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        prepared = Prepared(operator, network)
        return prepared.read(prepared.call(arrange(prepared, inputs)))

    subject = SubjectCalls(lambda: run(truth.network, truth.inputs), run)
    declared = (operator_name(truth.network.nodes[0]),) if operator.norm_wise else ()
    verdict = judge(truth, subject, norm_wise=declared)
    bits = verdict.significant_bits
    measured_bits = None if bits != bits else bits
    figures = {"max_abs_error": verdict.max_abs_error, "max_rel_error": verdict.max_rel_error, "max_ulp": verdict.max_ulp}
    reason = "" if verdict.word == "right" else _short_reason(verdict)
    return Finding(name, problem.name, verdict.word, reason, measured_bits, _place(verdict, place), figures)


def _short_reason(verdict: Verdict) -> str:
    """The reason, without what only a network of several nodes needs."""
    node, _, message = verdict.reason.partition("): ") if verdict.reason.startswith("node ") else ("", "", verdict.reason)
    if node and not message.startswith("it "):
        message = f"the result {message}"
    return message.removesuffix("; all 1 nodes replayed alone are right")


def _place(verdict: Verdict, place: str) -> str:
    """The worst element of the first output that something is said of."""
    if verdict.word == "right":
        return place
    blamed = next((o for o in verdict.outputs if o.reason), None) or min(verdict.outputs, key=lambda o: o.bits, default=None)
    if blamed is None:
        return place
    return f"{place}, {blamed.name}{list(blamed.where)}" if blamed.where else f"{place}, {blamed.name}"


def layout_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel is right on inputs that are not contiguous or not aligned, as far as its device has such arrays.

    Inputs are transposed, in Fortran order, taken from every second element or from longer rows, run backwards, begin within
    their memory or at an odd address. What lies between their elements is NaN, and must stay.

    Args:
        operator: The kernel. If it wants its inputs otherwise, it may raise `deep_bench.errors.Unsupported`.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> layout_check(Doubled(), Case.of(Doubled().target, (2, 3))).word
        'right'
    """
    problem = posed(case, seed, effort)
    layouts = available_layouts(operator.device, problem.inputs())
    parts = [_in_layout(operator, problem, layout) for layout in layouts]
    return combined("layout", problem.name, parts, "its device has no arrays but contiguous ones")


def _in_layout(operator: Operator[Any], problem: Problem, layout: str) -> Finding:
    arrangement = Arrangement(layout)

    def find() -> Finding:
        finding = judged_finding("layout", operator, problem, problem.truth(), layout, arrangement)
        if not arrangement.untouched(operator.device):
            return Finding("layout", problem.name, "wrong", "writes to its inputs or between their elements", place=layout)
        return finding

    return finding_of("layout", problem, find, layout)


Place = tuple[int, int]
"""Which argument, and which of its dimensions."""


def small_cases(case: Case, sizes: Sequence[int] = (1, 0), most: int = 12) -> list[Case]:
    """Cases of the same operator whose dimensions are shrunk, one group at a time, as far as the operator allows.

    Dimensions of the same size are shrunk together, each alone, and in pairs of two inputs: what the operator's schema, or a
    run of the function, refuses is left out.

    Args:
        case: The case.
        sizes: What to shrink to.
        most: How many cases for each size.

    Example:
        >>> [c.label for c in small_cases(Case.of("Gemm", (4, 3), (3, 2)))]
        ['1x2x3', '4x2x1', '4x1x3', '0x2x3', '4x2x0', '4x0x3']
    """
    variants: list[Case] = []
    for size in sizes:
        visited = {case.problem}
        shrunk_cases: list[Case] = []
        for places in _groups(case):
            if len(shrunk_cases) >= most:
                break
            small = _shrunk(case, places, size)
            if small is not None and small.problem not in visited:
                visited.add(small.problem)
                shrunk_cases.append(small)
        variants += shrunk_cases
    return variants


def _groups(case: Case) -> Iterator[tuple[Place, ...]]:
    """Dimensions to shrink together: those of the same size, in the order of the first; each alone; pairs of two inputs."""
    by_size: dict[int, list[Place]] = {}
    for i, argument in enumerate(case.arguments):
        if argument is not None and argument.value is None:
            for axis, size in enumerate(argument.shape):
                if size > 1:
                    by_size.setdefault(size, []).append((i, axis))
    yield from map(tuple, by_size.values())
    several = [places for places in by_size.values() if len(places) > 1]
    yield from ((place,) for places in several for place in places)
    for places in several:
        yield from (pair for pair in combinations(places, 2) if pair[0][0] != pair[1][0])


def _shrunk(case: Case, places: Sequence[Place], size: int) -> Case | None:
    if size == 0 and row_of(case.operator).windowed and any(place != (0, 0) for place in places):
        return None
    arguments = list(case.arguments)
    for i, axis in places:
        argument = arguments[i]
        assert argument is not None
        shape = tuple(size if k == axis else d for k, d in enumerate(argument.shape))
        arguments[i] = Argument(replace(argument.spec, shape=shape), draw=argument.draw)
    small = replace(case, arguments=tuple(arguments))
    try:
        small = replace(small, arguments=tuple(_redrawn(case, small, i) for i in range(len(arguments))))
        small.results  # noqa: B018 (what does not fit together is refused here)
        small.arrays()
    except (DeepBenchError, IndexError, ZeroDivisionError):  # a rule for a draw may look for an element that is not there
        return None
    return replace(small, label=label_of(small))


def _redrawn(case: Case, small: Case, index: int) -> Argument | None:
    """The argument with the draw that its operator has for the new sizes, unless it had one of its own."""
    argument = small.arguments[index]
    if argument is None or argument.value is not None or argument.draw != draw_of(case, index):
        return argument
    return Argument(argument.spec, draw=draw_of(small, index))


_MOST_SIZES = {"quick": 4, "full": 24}


def sizes_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel is right where dimensions of the case have one element or none, as far as the operator allows it.

    Args:
        operator: The kernel. For sizes that it does not take, it may raise `deep_bench.errors.Unsupported`.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: ``"quick"`` tries at most four cases with ones and four with zeros, ``"full"`` twenty-four of each.

    Example:
        >>> class Averaged(Operator):
        ...     computes = "ReduceMean"
        ...     def forward(self, x, axes, *, keepdims=1):
        ...         return x.sum(axis=1, keepdims=True) / (len(x[0]) or 1)
        >>> sizes_check(Averaged(), Case.of("ReduceMean", (3, 4), [1])).word
        'failed'
    """
    problem = posed(case, seed, effort)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, of which NumPy warns
        parts = [_at_size(operator, small, problem) for small in small_cases(problem.case, most=_MOST_SIZES[problem.effort])]
    return combined("sizes", problem.name, parts, "the operator allows no other sizes")


def _at_size(operator: Operator[Any], case: Case, whole: Problem) -> Finding:
    small = Problem(case, seed=whole.seed, effort=whole.effort)
    place = f"size {case.label}"
    try:
        truth = small.truth()
    except (DeepBenchError, ValueError, ZeroDivisionError, IndexError) as error:
        reason = f"the reference does not define it: {type(error).__name__}"
        return Finding("sizes", whole.name, "not applicable", reason, place=place)
    return finding_of("sizes", whole, lambda: judged_finding("sizes", operator, small, truth, place), place)
