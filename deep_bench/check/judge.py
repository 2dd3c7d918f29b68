"""``judge``: one verdict on a system under test."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.check.decisions import impose, open_decisions
from deep_bench.check.endtoend import Whole, assess_whole, settle_whole
from deep_bench.check.information import nothing_to_compare
from deep_bench.check.nodes import judge_nodes
from deep_bench.check.replay import expected_of_whole
from deep_bench.check.subject import Subject, named
from deep_bench.check.truth import Truth
from deep_bench.check.verdict import NodeVerdict, Repeatability, Verdict, Word
from deep_bench.tensor import is_inexact

_LISTED = 10


def judge(truth: Truth, subject: Subject, *, norm_wise: Collection[str] = ()) -> Verdict:
    """Judge a system under test on a network and inputs.

    Every node is replayed alone on the oracle's inputs, and the outputs of the whole network are compared with what
    rounding can make of the oracle's. For a network of a single node these are the same, and estimated once.

    Args:
        truth: What `establish` found out about the network on these inputs.
        subject: The system under test.
        norm_wise: Operators whose algorithm is knowingly less accurate (Winograd, fast math): they are judged relative to
            the largest elements of their result.

    Returns:
        The verdict. Exceptions that the system raises on its own network pass through; those that it raises on replayed
        nodes make the node count as refused.

    Raises:
        DeepBenchError: The system returns outputs under other names than the network's.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.check import InProcessSubject, establish
        >>> network = db.load("digits-cnn")
        >>> image = {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}
        >>> judge(establish(network, image), InProcessSubject(db.frameworks["reference"](), network, image)).word
        'right'
    """
    start = time.perf_counter()
    actual, again = (named(subject.outputs(), truth.outputs) for _ in range(2))
    replays = judge_nodes(truth, subject, frozenset(norm_wise))
    nodes, refused, findings = replays.verdicts, len(replays.refusals), list(replays.findings)
    shared = expected_of_whole(truth, subject.upgrades)
    whole = assess_whole(truth, actual, truth.outputs, truth.samples, expected=shared)
    if norm_wise:
        if not whole.clear:
            samples = truth.sampled(len(truth.samples), 5, norm_wise=frozenset(norm_wise))
            whole = assess_whole(truth, actual, truth.outputs, samples)
        findings.append(f"judged norm-wise, as declared: {', '.join(sorted(norm_wise))}")
    if not whole.clear and not truth.random and (decisions := open_decisions(truth)):
        whole = _with_decisions(truth, subject, actual, whole, decisions, findings)
    if not whole.clear and not truth.random and not any(n.word != "right" for n in nodes):
        whole = settle_whole(truth, subject, whole)
    word, reason = _verdict(truth, nodes, whole, refused)
    worst = sorted(nodes, key=lambda n: -n.deficit)
    listed = [n for n in worst if n.word != "right"] or worst
    return Verdict(
        word=word,
        reason=reason,
        significant_bits=_bits(worst, whole),
        end_to_end_bits=whole.bits,
        max_abs_error=max((o.max_abs_error for o in whole.outputs), default=0.0),
        max_rel_error=max((o.max_rel_error for o in whole.outputs), default=0.0),
        max_ulp=max((o.max_ulp for o in whole.outputs), default=0.0),
        outputs=whole.outputs,
        worst_nodes=tuple(listed[: max(_LISTED, len(listed) if listed is not worst else 0)]),
        replayed=len(nodes),
        refused=refused,
        findings=tuple(findings),
        repeatability=_repeatability(actual, again),
        effort=truth.effort,
        seconds=time.perf_counter() - start,
    )


def _with_decisions(
    truth: Truth, subject: Subject, actual: Mapping[str, np.ndarray], whole: Whole, decisions: Any, findings: list[str]
) -> Whole:
    try:
        imposed = impose(truth, subject, decisions)
    except Exception as error:  # a framework may fail in any way when asked for values inside its network
        findings.append(f"its decisions could not be read: {next(iter(str(error).splitlines()), type(error).__name__)}")
        imposed = None
    if imposed is None:
        return assess_whole(truth, actual, truth.outputs, truth.samples, decisions)
    if imposed.refused:
        return whole.because(imposed.refused)
    findings.append(f"{len(imposed.flipped)} results decide otherwise than the oracle, within the margin of rounding")
    return assess_whole(truth, actual, imposed.outputs, imposed.samples, decisions)


def _verdict(truth: Truth, nodes: Sequence[NodeVerdict], whole: Whole, refused: int) -> tuple[Word, str]:
    """The worst of what was found, and the sentence that says so."""
    if truth.random:
        return "cannot tell", "it draws random numbers, and distributions are not compared yet"
    if whole.impossible and whole.word == "wrong":
        return "wrong", whole.reason
    for word in ("wrong", "reduced precision", "cannot tell"):
        matches = [n for n in nodes if n.word == word]
        if matches:
            first = max(matches, key=lambda n: n.deficit)
            suffix = f" (and {len(matches) - 1} more)" if len(matches) > 1 else ""
            return word, f"node {first.name!r} ({first.operator}){suffix}: {first.reason}"
    if not whole.clear:
        return whole.word, whole.reason
    if whole.information:
        return "no information", f"{whole.reason}; all {len(nodes)} nodes replayed alone are right"
    if nothing := nothing_to_compare(truth.outputs):
        return "no information", nothing
    if not nodes and refused:
        return "cannot tell", "no node could be replayed alone"
    return "right", f"all {len(nodes)} nodes replayed alone and the outputs differ from the oracle by rounding only"


def _bits(worst: Sequence[NodeVerdict], whole: Whole) -> float:
    """Of the worst node that rounds, else of the outputs; NaN where nothing in the network rounds."""
    rounding = [n.bits for n in worst if n.format]
    if rounding:
        return rounding[0]
    return whole.bits if any(is_inexact(np.dtype(o.format)) for o in whole.outputs if _is_format(o.format)) else float("nan")


def _is_format(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return False
    return True


def _repeatability(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> Repeatability:
    spread, bitwise = 0.0, True
    for name, a in first.items():
        b = second[name]
        if not isinstance(a, np.ndarray):
            continue
        if a.shape == b.shape and a.tobytes() == b.tobytes():
            continue
        if a.dtype == object and np.array_equal(a, b):
            continue
        bitwise = False
        if a.shape != b.shape or a.dtype.kind in "OSU":
            spread = float("inf")
            continue
        with np.errstate(all="ignore"):
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            difference = float(np.nanmax(np.abs(wide_a - wide_b), initial=0.0))
            spread = max(spread, difference / (float(np.nanmax(np.abs(wide_a), initial=0.0)) or 1.0))
    return Repeatability(bitwise, spread)
