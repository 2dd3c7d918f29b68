"""Whether a kernel gives the same bits again: in another run, with another number of threads, in another batch.

Results of some operators are independent from row to row; their facts say along which axis of each input and output the
rows lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from deep_bench.check.estimate import Expectation, compare, pooled
from deep_bench.check.oracle import Effort, Truth
from deep_bench.check.thresholds import LARGEST_RATIO
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import row_of
from deep_bench.operators.checks.arrays import same_bits
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.problem import Prepared, Problem, finding_of, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_inexact


@dataclass(frozen=True)
class RowAxes:
    """Where the rows of a case are.

    Args:
        inputs: Input name to the axis along which its rows lie; an input that all rows share is left out.
        outputs: Output name to the axis along which its rows lie.
        count: How many rows there are.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    count: int

    def cut(self, case: Case, size: int) -> Case:
        """The case with so many rows only."""

        def shorter(argument: Argument | None) -> Argument | None:
            if argument is None or argument.spec.name not in self.inputs:
                return argument
            axis = self.inputs[argument.spec.name]
            shape = tuple(size if k == axis else d for k, d in enumerate(argument.shape))
            return replace(argument, spec=replace(argument.spec, shape=shape))

        return replace(case, arguments=tuple(map(shorter, case.arguments)))


def rows_of(case: Case) -> RowAxes | None:
    """Where a case has its rows; ``None`` where they depend on each other, or where the operator has no such fact.

    Example:
        >>> rows_of(Case.of("Gemm", (3, 8), (3, 2), transA=1)).inputs
        {'A': 1}
        >>> rows_of(Case.of("Softmax", (8, 2), axis=0)) is None
        True
    """
    rule = row_of(case.operator).row_axes
    axes = rule(case) if rule is not None else None
    if not axes:
        return None
    shapes = {a.spec.name: a for a in case.arguments if a is not None}
    if any(shapes[name].value is not None for name in axes):
        return None
    counts = {shapes[name].shape[axis] for name, axis in axes.items()}
    if len(counts) != 1 or (count := counts.pop()) < 2:
        return None
    outputs = {r.name: 0 for r in case.results}
    return RowAxes(axes, outputs, count) if all(r.shape and r.shape[0] == count for r in case.results) else None


RERUNS: Mapping[Effort, int] = {"quick": 5, "full": 50}
"""How often a kernel runs again on the same inputs."""


Answer = Mapping[str, np.ndarray]


def reruns_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel gives the same bits whenever it is run; the spread where not.

    Other bits are no fault as long as they differ by no more than rounding.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: ``"quick"`` runs it six times, ``"full"`` fifty-one times.

    Returns:
        A finding whose figure ``spread`` is the largest difference over the largest result.

    Example:
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> reruns_check(Doubled(), Case.of(Doubled().target, (2, 3))).figures
        {'spread': 0.0}
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        prepared = Prepared(operator, problem.network)
        truth = problem.truth()
        first = prepared.answer(truth.inputs)
        answers = (prepared.answer(truth.inputs) for _ in range(RERUNS[problem.effort]))
        return _compared("reruns", problem, truth, first, answers, "runs on the same inputs")

    return finding_of("reruns", problem, find)


def threads_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel gives the same bits with one thread as with all, where thread pools that can be told so are loaded.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Returns:
        A finding whose figure ``spread`` is the largest difference over the largest result.
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        prepared = Prepared(operator, problem.network)
        truth = problem.truth()
        first = prepared.answer(truth.inputs)  # what it loads on first use has its pool by then
        pools = ThreadpoolController()
        most = max((pool["num_threads"] for pool in pools.info()), default=1)
        if most < 2:
            reason = "no pool of more than one thread is loaded here"
            return Finding("threads", problem.name, "not applicable", reason)

        def answers() -> Iterator[Answer]:
            for count in sorted({1, max(1, most // 2)}):
                with pools.limit(limits=count):
                    yield prepared.answer(truth.inputs)

        return _compared("threads", problem, truth, first, answers(), f"{most} threads and fewer")

    return finding_of("threads", problem, find)


def batch_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a row of the result stays the same, bit by bit, when other rows of the batch are left out.

    For operators whose rows do not depend on each other: see `deep_bench.operators.checks.repeatability`.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Returns:
        A finding whose figure ``spread`` is the largest difference over the largest result.

    Example:
        >>> class Gemm(Operator):
        ...     computes = "Gemm"
        ...     def forward(self, a, b):
        ...         return np.stack([(a[:, k, None] * b[k]) for k in range(len(b))]).sum(axis=0)
        >>> batch_check(Gemm(), Case.of("Gemm", (4, 3), (3, 2))).word
        'right'
    """
    problem = posed(case, seed, effort)
    rows = rows_of(problem.case)
    if rows is None:
        return Finding("batch", problem.name, "not applicable", "it has no rows that do not depend on each other")

    def find() -> Finding:
        truth = problem.truth()
        whole = Prepared(operator, problem.network).answer(truth.inputs)
        slices = dict.fromkeys([(0, 1), (0, rows.count // 2), (rows.count // 2, rows.count), (rows.count - 1, rows.count)])
        pieces = (_piece(operator, problem, truth, rows, start, stop) for start, stop in slices)
        findings: list[Finding] = []
        for (start, stop), piece in zip(slices, pieces, strict=True):
            alone = f"row {start} alone" if stop - start == 1 else f"rows {start} to {stop - 1} alone"
            cut = {n: _rows(y, rows.outputs[n], start, stop) for n, y in whole.items()}
            within = _cut(rows, start, stop)
            findings.append(_compared("batch", problem, truth, cut, [piece], alone, within))
        return combined("batch", problem.name, findings)

    return finding_of("batch", problem, find)


def _piece(operator: Operator[Any], problem: Problem, truth: Truth, rows: RowAxes, start: int, stop: int) -> Answer:
    inputs = {n: _rows(a, rows.inputs[n], start, stop) if n in rows.inputs else a for n, a in truth.inputs.items()}
    return Prepared(operator, rows.cut(problem.case, stop - start).network()).answer(inputs)


def _rows(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return np.ascontiguousarray(array[(*[slice(None)] * axis, slice(start, stop))])


def _cut(rows: RowAxes, start: int, stop: int) -> Callable[[np.ndarray, str], np.ndarray]:
    return lambda array, name: _rows(array, rows.outputs[name], start, stop)


def _compared(
    name: str,
    problem: Problem,
    truth: Truth,
    first: Answer,
    answers: Any,
    subject: str,
    cut: Callable[[np.ndarray, str], np.ndarray] = lambda array, _: array,
) -> Finding:
    """Whether answers have the same bits, and if not, whether rounding explains how they differ."""
    spread, worst, where = 0.0, 0.0, ""
    for answer in answers:
        if same_bits(first, answer):
            continue
        for output, a in first.items():
            b = answer[output]
            if a.shape != b.shape or a.dtype != b.dtype:
                reason = f"{subject} give {output} as {b.dtype}{list(b.shape)} and as {a.dtype}{list(a.shape)}"
                return Finding(name, problem.name, "wrong", reason)
            deviation, ratio, place = _difference(truth, output, a, b, cut)
            spread = max(spread, deviation)
            if ratio > worst:
                worst, where = ratio, f"{output}{place}"
    figures = {"spread": spread}
    if not spread:
        return Finding(name, problem.name, "right", "", None, "", figures)
    message = f"{subject} differ by {spread:.2g} of the largest result"
    if worst > LARGEST_RATIO:
        reason = f"{message}, and somewhere by {worst:.3g} times what rounding explains"
        return Finding(name, problem.name, "wrong", reason, None, where, figures)
    return Finding(name, problem.name, "right", f"not the same bits: {message}, as rounding may", None, where, figures)


def _difference(
    truth: Truth, output: str, a: np.ndarray, b: np.ndarray, cut: Callable[[np.ndarray, str], np.ndarray]
) -> tuple[float, float, str]:
    """The largest difference of two arrays over the largest element; in units of its estimate; and where that is."""
    if a.dtype.kind in "OSU" or not is_inexact(a.dtype):
        different = np.asarray(a != b)
        if not different.any():
            return 0.0, 0.0, ""
        return 1.0, float("inf"), str([int(i) for i in np.argwhere(different)[0]] if a.ndim else "")
    wide_a, wide_b = (x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in (a, b))
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(wide_a), wide_a, 0)), initial=0.0)) or 1.0
        step = np.abs(wide_a - wide_b)
        spread = float(np.nanmax(np.where(np.isfinite(step), step, 0.0), initial=0.0)) / largest
    value = cut(np.asarray(truth.outputs[output]), output)
    samples = [cut(np.asarray(s[output]), output) for s in truth.samples]
    estimate = pooled(value, samples, truth.formats[output])
    agreement = compare(b, Expectation(wide_a, np.sqrt(2) * estimate.spread, estimate.settled, estimate.form))
    if agreement.misplaced:
        return max(spread, 1.0), float("inf"), ""
    return spread, agreement.largest, str(list(agreement.where))
