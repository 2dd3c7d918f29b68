"""``judge``: one verdict on a system under test.

The outputs of the whole network are held against what rounding can make of the oracle's; every node is judged alone; and
what the replay of one leaves open is settled: other summation orders, narrower formats, the precision ladder.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench.check.estimate import Agreement, Expectation, Opinion, assess, compare, pooled, rounds_to, same_kind
from deep_bench.check.oracle import SAMPLES, Truth
from deep_bench.check.replay import (
    IsolatedNodes,
    NodeReplay,
    evaluations,
    expectations,
    expected_of_whole,
    form_of,
    isolate,
    replay,
    samples_for,
)
from deep_bench.check.special import DecisionTrials, impose, nothing_to_compare, open_decisions, recognise
from deep_bench.check.subject import Subject, named, run_precisely
from deep_bench.check.thresholds import (
    END_TO_END_RATIO,
    EXACT_BITS,
    FEWEST_BITS,
    GREY_BITS,
    INFORMATION,
    LARGEST_RATIO,
    LINEAR_SHARE,
    MARGIN_RATIO,
    ROUNDING_BITS,
    SHRINKS_BY,
)
from deep_bench.check.verdict import NodeVerdict, OutputVerdict, Repeatability, Verdict, Word
from deep_bench.graph import operator_name
from deep_bench.tensor import is_inexact, significand_bits, unit_roundoff

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
        whole = settle_whole(
            truth,
            whole,
            lambda: named(subject.run(truth.network, truth.inputs), truth.outputs),
            lambda: run_precisely(subject, truth.network, truth.inputs),
            besides=", although all nodes alone are right",
        )
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
    truth: Truth, subject: Subject, actual: Mapping[str, np.ndarray], whole: EndToEnd, decisions: Any, findings: list[str]
) -> EndToEnd:
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


def _verdict(truth: Truth, nodes: Sequence[NodeVerdict], whole: EndToEnd, refused: int) -> tuple[Word, str]:
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


def _bits(worst: Sequence[NodeVerdict], whole: EndToEnd) -> float:
    """Of the worst node that rounds, else of the outputs; NaN where nothing in the network rounds."""
    rounding = [n.bits for n in worst if n.format]
    if rounding:
        return rounding[0]
    for output in whole.outputs:
        with suppress(TypeError):  # a sequence has no element type
            if is_inexact(np.dtype(output.format)):
                return whole.bits
    return float("nan")


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


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What the outputs of the network say.

    Args:
        outputs: One verdict for each.
        word: *right*, *cannot tell* (outside what rounding does), or *wrong* (what rounding never does).
        reason: Why not *right*, or why there is no information.
        information: Whether rounding drowns some output.
        impossible: Whether no format explains it: another shape or type, or NaN where the oracle has none.
    """

    outputs: tuple[OutputVerdict, ...]
    word: Word
    reason: str = ""
    information: bool = False
    impossible: bool = False

    @property
    def clear(self) -> bool:
        """Whether rounding explains all outputs."""
        return self.word == "right"

    @property
    def bits(self) -> float:
        """The significant bits of the worst output."""
        return min((o.bits for o in self.outputs), default=EXACT_BITS)

    def because(self, reason: str) -> EndToEnd:
        """The same outputs, wrong for this reason."""
        return dataclasses.replace(self, word="wrong", reason=reason)


def assess_whole(
    truth: Truth,
    actual: Mapping[str, np.ndarray],
    oracle: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
    decisions: Mapping[str, DecisionTrials] | None = None,
    expected: Mapping[str, Expectation] | None = None,
) -> EndToEnd:
    """Compare all outputs.

    Args:
        truth: Of the network.
        actual: The outputs of the system under test, by the network's names.
        oracle, samples: The oracle's outputs and those with rounding errors, perhaps with decisions imposed.
        decisions: What discrete outputs may be.
        expected: What outputs may be, as far as that is known already from the very samples.
    """
    expectations = expected or {}
    verdicts: list[OutputVerdict] = []
    word: Word = "right"
    reason, drowned = "", False
    for name, reference in oracle.items():
        rounded = [s[name] for s in samples]
        verdict, level = _assess_output(
            truth, name, actual[name], reference, rounded, decisions or {}, expectations.get(name)
        )
        verdicts.append(verdict)
        drowned |= verdict.information >= INFORMATION
        if level != "right" and word != "wrong":
            word, reason = level, f"output {name!r} {verdict.reason}"
    if word == "right" and drowned:
        reason = "rounding alone changes the outputs by as much as their own spread"
    return EndToEnd(tuple(verdicts), word, reason, drowned, any(o.bits == 0.0 or o.mismatches for o in verdicts))


def _assess_output(
    truth: Truth,
    name: str,
    actual: Any,
    expected: Any,
    samples: Sequence[Any],
    decisions: Mapping[str, DecisionTrials],
    precomputed: Expectation | None,
) -> tuple[OutputVerdict, Word]:
    if isinstance(expected, list) or isinstance(actual, list):
        reason = f"is {type(actual).__name__}, and sequences are not compared"
        return OutputVerdict(name, (), "sequence", reason, 0.0), "cannot tell"
    expected = np.asarray(expected)
    form = truth.formats.get(name, expected.dtype)
    shape = tuple(int(d) for d in actual.shape)
    if not is_inexact(expected.dtype):
        if actual.dtype != form and form.kind not in "OSU":
            return OutputVerdict(name, shape, str(actual.dtype), f"is {actual.dtype} instead of {form}", 0.0), "wrong"
        identical = actual.shape == expected.shape and np.array_equal(actual, expected)
        if identical or (name in decisions and decisions[name].admits(actual)):
            return OutputVerdict(name, shape, str(form), "", EXACT_BITS), "right"
        if actual.shape != expected.shape:
            reason = f"has shape {list(shape)} instead of {list(expected.shape)}"
            return OutputVerdict(name, shape, str(form), reason, 0.0), "wrong"
        count = int(np.sum(np.asarray(actual != expected)))
        reason = f"differs in {count} of {actual.size} elements"
        return OutputVerdict(name, shape, str(form), reason, 0.0, mismatches=count), "wrong"
    if actual.shape != expected.shape or actual.dtype != form:
        reason = f"is {actual.dtype}{list(shape)} instead of {form}{list(expected.shape)}"
        return OutputVerdict(name, shape, str(actual.dtype), reason, 0.0), "wrong"
    expectation = precomputed if precomputed is not None and precomputed.form == form else pooled(expected, samples, form)
    agreement = compare(actual, expectation)
    level, reason = _level(agreement, form, 1.0)
    if level != "right" and not agreement.misplaced:
        typical = max((compare_ratio(np.asarray(s), expectation) for s in samples), default=1.0)
        level, reason = _level(agreement, form, typical)
    where = agreement.where
    if agreement.misplaced:
        # the first element that is NaN, infinite or finite where the oracle's is not
        wide = actual.astype(np.complex128 if np.iscomplexobj(expectation.value) else np.float64)
        apart = expectation.settled & ~same_kind(wide, expectation.value)
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        reason += f": first {list(where)}, which is {actual[where]:.6g} instead of {expected[where]:.6g}"
    bits = agreement.bits - (significand_bits(form) - _working_bits(truth, form))
    verdict = OutputVerdict(
        name,
        shape,
        str(form),
        reason,
        bits if agreement.bits < EXACT_BITS or agreement.max_abs_error else EXACT_BITS,
        agreement.largest,
        where,
        agreement.linear_share,
        agreement.information,
        agreement.max_abs_error,
        agreement.max_rel_error,
        agreement.l1_error,
        agreement.l2_rel_error,
        agreement.max_ulp,
        agreement.misplaced,
    )
    return verdict, level


def compare_ratio(sample: np.ndarray, expectation: Expectation) -> float:
    """The root mean square of a sample's studentised deviations."""
    if sample.shape != expectation.value.shape:
        return 1.0
    with np.errstate(all="ignore"):
        z = np.abs(sample - expectation.value) / expectation.spread
    return float(np.sqrt(np.mean(np.square(np.where(np.isfinite(z), z, 0.0))))) if z.size else 1.0


def _level(agreement: Agreement, form: np.dtype, typical: float) -> tuple[Word, str]:
    """Whether an output's error lies inside the distribution of evaluations with rounding errors."""
    if agreement.misplaced:
        return "wrong", f"has {agreement.misplaced} elements that are infinite, NaN or finite where the oracle's are not"
    ratio = 2.0**-agreement.bits / unit_roundoff(form)
    sliced = 2.0**-agreement.worst_slice_bits / unit_roundoff(form)
    allowed = END_TO_END_RATIO * max(typical, 1.0)
    excess = max(ratio, sliced / 2, agreement.largest / LARGEST_RATIO * 2) / allowed
    if excess <= 1:
        return "right", ""
    reason = f"is off by {ratio:.3g} times what rounding explains, at most {agreement.largest:.3g} times"
    return ("cannot tell" if excess <= 2.0 ** (GREY_BITS - ROUNDING_BITS) else "wrong"), reason


def _working_bits(truth: Truth, form: np.dtype) -> int:
    """The precision of the narrowest format that the network works in, at most the output's own."""
    forms = {d for n, d in truth.formats.items() if is_inexact(d) and d.itemsize > 1 and n not in truth.settings}
    return min((significand_bits(d) for d in forms), default=significand_bits(form))


def settle_whole(
    truth: Truth,
    whole: EndToEnd,
    afresh: Callable[[], Mapping[str, np.ndarray]],
    precisely: Callable[[], Mapping[str, np.ndarray]],
    *,
    besides: str = "",
    precise_oracle: Callable[[], Mapping[str, Any]] | None = None,
) -> EndToEnd:
    """Where all nodes alone are right but the outputs are not.

    The network is run afresh; sums may have been added term by term, which loses bits on long ones; last comes float64.

    Args:
        truth: Of the network.
        whole: What was said of the outputs: *cannot tell* or *wrong*.
        afresh: Gives the outputs once more, of the network prepared anew.
        precisely: Gives the outputs in float64.
        besides: What is known already, for the reason.
        precise_oracle: Gives what the network in float64 must give, where that is not the oracle's outputs: constants of
            ``truth.network`` may be rounded to its own precision.
    """
    again = afresh()
    fresh = assess_whole(truth, again, truth.outputs, truth.samples)
    if fresh.clear:
        return whole.because(f"{whole.reason}, but not when the network is prepared and run afresh")
    samples = truth.sampled(len(truth.samples), 7, accumulation="sequential")
    if assess_whole(truth, again, truth.outputs, samples).clear:
        return dataclasses.replace(whole, word="right", reason="")
    if whole.word == "wrong":
        return whole.because(f"{whole.reason}{besides}")
    try:
        precise = precisely()
    except Exception:  # a framework says in its own ways that it has no such kernel
        return dataclasses.replace(whole, reason=f"{whole.reason}, and it cannot run in float64 here")
    expected = truth.outputs if precise_oracle is None else precise_oracle()
    if all(_vanishes(expected[o.name], precise.get(o.name), o.max_abs_error) for o in whole.outputs):
        return dataclasses.replace(whole, word="right", reason="")
    return whole.because(f"{whole.reason}{besides}; in float64 the error stays")


def _vanishes(expected: Any, precise: np.ndarray | None, error: float) -> bool:
    """Whether an output in float64 is far closer to the oracle's than by ``error``."""
    expected = np.asarray(expected)
    if precise is None or precise.shape != expected.shape:
        return False
    if not is_inexact(expected.dtype):
        return bool(np.array_equal(precise, expected))
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(precise - expected), initial=0.0))
    return largest <= max(error * SHRINKS_BY, float(np.finfo(np.float32).tiny))


_EXAMINED = 64


@dataclass(frozen=True, slots=True, eq=False)
class JudgedNodes:
    """What the replay of all nodes said.

    Args:
        verdicts: One for each node that ran alone; those that were clear at once come first.
        refusals: The nodes that did not run alone, each with the reason.
        findings: Remarks that do not decide.
    """

    verdicts: Sequence[NodeVerdict]
    refusals: Sequence[NodeReplay]
    findings: Sequence[str]


def judge_nodes(
    truth: Truth,
    subject: Subject,
    norm_wise: Collection[str] = (),
    told: Callable[[NodeVerdict], object] | None = None,
) -> JudgedNodes:
    """Replay all nodes; examine those that are not clear, the worst first.

    Args:
        truth: Of the network.
        subject: The system under test.
        norm_wise: Operators that are judged relative to the largest elements of their results.
        told: Called with each verdict as soon as it is there, for who may be interrupted; for a node that must be examined
            first with *cannot tell*, and again later.
    """
    tell = told or (lambda _: None)
    verdicts: list[NodeVerdict] = []
    doubted: list[tuple[NodeReplay, Any]] = []
    remarks: dict[str, str] = {}
    refusals: list[NodeReplay] = []
    for replayed in replay(truth, subject):
        if replayed.refused:
            refusals.append(replayed)
            continue
        replayed = as_decisions(replayed)
        if replayed.operator in norm_wise:
            replayed = replayed.norm_wise()
        opinions = first_opinions(replayed)
        if remark := relative_loss(replayed):
            remarks.setdefault(replayed.operator, remark)
        if all(o.level == "clear" for o in opinions.values()):
            verdicts.append(node_verdict(replayed, opinions, NodeFinding("right")))
            tell(verdicts[-1])
        else:
            doubted.append((replayed, opinions))
            tell(node_verdict(replayed, opinions, _doubted(opinions, "not examined yet")))
    doubted.sort(key=lambda pair: -max(o.deficit for o in pair[1].values()))
    for number, (replayed, opinions) in enumerate(doubted):
        examined = number < _EXAMINED
        unexamined = _doubted(opinions, f"{_EXAMINED} worse nodes were examined")
        settled = settle(truth, subject, replayed, opinions) if examined else unexamined
        verdicts.append(node_verdict(replayed, opinions, settled))
        tell(verdicts[-1])
    findings = list(remarks.values())
    if refusals:
        first = refusals[0]
        findings.append(
            f"{len(refusals)} nodes did not run alone, first {first.node.name!r} ({first.operator}): {first.refused}"
        )
    return JudgedNodes(verdicts, refusals, findings)


def _doubted(opinions: Mapping[str, Any], reason: str) -> NodeFinding:
    worst = max(opinions.values(), key=lambda o: o.deficit)
    return NodeFinding("cannot tell", f"{worst.reason}; {reason}", worst)


_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """What was found out about a node."""

    word: Word
    reason: str = ""
    opinion: Opinion = Opinion("clear")  # noqa: RUF009 (immutable)


def as_decisions(replayed: NodeReplay) -> NodeReplay:
    """The same, with what is rounded once to a floating-point format expected exactly."""
    exact = {
        name: e.value.astype(e.form)
        for name, e in replayed.expected.items()
        if isinstance(e, Expectation) and rounds_to(replayed.node, e.form)
    }
    return replace(replayed, expected={**replayed.expected, **exact}) if exact else replayed


def first_opinions(replayed: NodeReplay) -> dict[str, Opinion]:
    """The opinion of each output of a replayed node."""
    return {name: assess(replayed.actual[name], e) for name, e in replayed.expected.items()}


def settle(truth: Truth, subject: Any, replayed: NodeReplay, opinions: Mapping[str, Opinion]) -> NodeFinding:
    """Examine a node whose first opinions are not all clear."""
    worst = max(opinions.values(), key=lambda o: (o.rank, o.deficit))
    alone = isolate(form_of(truth.network, subject.upgrades), [replayed.node], truth.values)
    discrete = {n for n, e in replayed.expected.items() if not isinstance(e, Expectation)}
    doubted = {n for n, o in opinions.items() if o.level != "clear"}
    if any(opinions[n].level == "impossible" for n in doubted):
        return NodeFinding("wrong", worst.reason, worst)
    if doubted & discrete:
        if _beyond_margin(alone, replayed, doubted & discrete):
            return NodeFinding("wrong", worst.reason, worst)
        if doubted <= discrete:
            return NodeFinding("right", "a decision within its margin")
    size = sum(x.nbytes for x in (*alone.inputs.values(), *replayed.actual.values()))
    by_terms = expectations(alone, samples_for(size, SAMPLES[truth.effort]), accumulation="sequential")
    sequential = [assess(replayed.actual[n], e) for n, e in by_terms.items()]
    if sequential and all(o.level == "clear" for o in sequential):
        precise = _precisely(subject, alone, replayed)
        if precise is None or _all_shrink(replayed, precise):
            worst_term = max(sequential, key=lambda o: o.deficit)
            return NodeFinding("right", "it adds term by term, which loses bits on long sums", worst_term)
        return NodeFinding("wrong", f"{worst.reason}; in float64 the error stays", worst)
    if narrow := recognise(alone, replayed.actual, replayed.expected):
        return NodeFinding("reduced precision", f"it computes in {narrow}", worst)
    # run the node in float64: rounding shrinks, a fault stays
    precise = _precisely(subject, alone, replayed)
    if precise is not None and not _all_shrink(replayed, precise):
        return NodeFinding("wrong", f"{worst.reason}; in float64 the error stays", worst)
    if precise is not None and worst.bits < FEWEST_BITS:
        return NodeFinding("wrong", f"{worst.reason}; in float64, where another kernel runs, it does not", worst)
    if precise is not None:
        return NodeFinding("reduced precision", f"{worst.reason}; in float64 the error vanishes", worst)
    linear = worst.agreement is not None and worst.agreement.linear_share > LINEAR_SHARE
    if worst.level == "beyond" or linear:
        return NodeFinding("wrong", worst.reason, worst)
    return NodeFinding("cannot tell", f"{worst.reason}, and it cannot run in float64 here", worst)


def _beyond_margin(alone: IsolatedNodes, replayed: NodeReplay, names: set[str]) -> bool:
    """Whether a discrete result differs where rounding leaves no choice."""
    trials = evaluations(alone, _SAMPLES, scale=MARGIN_RATIO)
    for name in names:
        observation = DecisionTrials(np.asarray(replayed.expected[name]), [np.asarray(t[name]) for t in trials])
        if not observation.admits(replayed.actual[name]):
            return True
    return False


def _precisely(subject: Any, alone: IsolatedNodes, replayed: NodeReplay) -> Mapping[str, np.ndarray] | None:
    """The node's results in float64, if it has any in the same shapes."""
    try:
        precise = run_precisely(subject, alone.network, alone.inputs)
    except Exception:  # a framework says in its own ways that it has no such kernel
        return None
    return precise if all(n in precise and precise[n].shape == a.shape for n, a in replayed.actual.items()) else None


def _all_shrink(replayed: NodeReplay, precise: Mapping[str, np.ndarray]) -> bool:
    """Whether the error of every result is far smaller in float64."""
    for name, expected in replayed.expected.items():
        if not isinstance(expected, Expectation):
            if not np.array_equal(precise[name], expected):
                return False
            continue
        before, after = compare(replayed.actual[name], expected), compare(precise[name], expected)
        most_bits = significand_bits(expected.form) + ROUNDING_BITS
        gained = after.bits >= min(before.bits - np.log2(SHRINKS_BY), most_bits)
        shrunk = after.largest <= max(before.largest * SHRINKS_BY, 1.0)
        if after.misplaced or not gained or not shrunk:
            return False
    return True


def node_verdict(replayed: NodeReplay, opinions: Mapping[str, Opinion], settled: NodeFinding) -> NodeVerdict:
    """What is reported of a node."""
    name, operator = str(replayed.node.name), replayed.operator
    forms = [e.form for e in replayed.expected.values() if isinstance(e, Expectation)]
    worst = max(opinions.values(), key=lambda o: o.deficit if o.bits < EXACT_BITS else -np.inf)
    deficit = settled.opinion.deficit if settled.word == "right" and settled.reason else worst.deficit
    form = str(forms[0]) if forms else ""
    return NodeVerdict(name, operator, settled.word, settled.reason, worst.bits, form, float(deficit))


def relative_loss(replayed: NodeReplay) -> str:
    """A remark on a bounded, positive operator whose small results lose relative accuracy, or ``""``."""
    if operator_name(replayed.node) not in ("Sigmoid", "Softmax"):
        return ""
    for name, expected in replayed.expected.items():
        if not isinstance(expected, Expectation) or replayed.actual[name].shape != expected.value.shape:
            continue
        y = np.abs(expected.value)
        u = 2.0 ** -significand_bits(expected.form)
        with np.errstate(all="ignore"):
            relative = np.abs(replayed.actual[name].astype(np.float64) - expected.value) / y
        lost = (y > 1e-30) & (relative > 64 * u)
        if lost.any():
            return (
                f"{replayed.operator} loses relative accuracy where its result is below {np.max(y[lost]):.2g} "
                f"(by up to {np.max(relative[lost]):.1g})"
            )
    return ""
