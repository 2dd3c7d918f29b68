"""Whether a framework's gradients agree with those of the derived network, on the standard's cases.

Where `deep_bench.testing.gradients` compares with differences of the reference, this compares with the derived network in
higher precision, by the rounding-error estimate: to the last bits, in float32 and in float64.

``python -m deep_bench.testing.agreement torch tensorflow > build/agreement.json`` compares all cases in both precisions.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from tqdm import tqdm

from deep_bench.check.judge import EndToEnd
from deep_bench.check.oracle import Truth
from deep_bench.check.subject import in_float64
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.fault import exposures
from deep_bench.framework import Adapter
from deep_bench.network.gradient.pullback import Pullback
from deep_bench.testing.case import Case, standard_cases
from deep_bench.testing.conformance import has_gradient
from deep_bench.testing.gradients import LOSS, gradient_outcome, gradient_problem
from deep_bench.variant import Variant

Word = Literal["right", "kink", "cannot tell", "wrong", "known fault", "refused", "failed", "random"]

AGREEMENT_WORDS: tuple[Word, ...] = get_args(Word)


@dataclass(frozen=True)
class GradientAgreement:
    """How the gradients of one case compare with the oracle's.

    Args:
        case: The case's name.
        word: ``right``: rounding explains all differences; ``kink``: at some element the function has no single slope, and
            the framework's is another one that is allowed; ``known fault``: it is none of these, and a node may meet a fault
            that the adapter lists; ``cannot tell`` and ``wrong`` as in a verdict; ``refused``: there is no gradient, of the
            framework or to compare with; ``random``: the case draws its results.
        bits: The significant bits of the worst gradient; NaN where none was compared.
        reason: Why not right.
    """

    case: str
    word: Word
    bits: float = float("nan")
    reason: str = ""


def gradient_agreement(system: str, case: Case, *, double: bool = False) -> GradientAgreement:
    """Compare the gradients of a case.

    Args:
        system: A framework with its options, as on the command line.
        case: One with floating-point inputs and outputs.
        double: Whether to widen it to float64 first.

    Example:
        >>> case = next(c for c in standard_cases("node") if c.name == "test_tanh")
        >>> gradient_agreement("reference", case).word
        'right'
    """
    problem = gradient_problem(case)
    if problem is None:
        raise InvalidArgument(f"{case.name} has no floating-point input or output", "a case that has a gradient")
    network, inputs = in_float64(problem.network, problem.inputs) if double else (problem.network, problem.inputs)
    adapter: Adapter[Any] | None = None
    truth: Truth | None = None
    try:
        with np.errstate(all="ignore"):  # cases overflow and divide by zero on purpose
            posed = Pullback(network, inputs, problem.wrt, LOSS)
            truth = posed.truth()
            if truth.random:
                return GradientAgreement(case.name, "random")
            adapter = Variant.parse(system).create()
            whole = posed.judged(truth, adapter)
    except (Unsupported, InvalidNetwork, InvalidArgument) as error:
        return GradientAgreement(case.name, "refused", reason=str(error))
    except (DeepBenchError, Exception) as error:  # whatever a framework raises, it costs this case only
        return GradientAgreement(case.name, _blamed(adapter, truth) or "failed", reason=f"{type(error).__name__}: {error}")
    return _agreement(adapter, truth, case, whole)


def _blamed(adapter: Adapter[Any] | None, truth: Truth | None) -> Word | None:
    """Whether a node of the derived network may meet a fault that the adapter lists, with a script that shows it."""
    if adapter is None or truth is None or not exposures(truth.network, adapter.known_faults):
        return None
    return "known fault"


def _agreement(adapter: Adapter[Any], truth: Truth, case: Case, whole: EndToEnd) -> GradientAgreement:
    outcome = None if whole.clear else gradient_outcome(adapter, case)
    if outcome is not None and outcome.word == "kink":
        return GradientAgreement(case.name, "kink")
    if outcome is not None and outcome.word == "refused":  # its results are no more than draws of its own
        return GradientAgreement(case.name, "random", reason=outcome.detail)
    word: Word = next(w for w in AGREEMENT_WORDS if w == whole.word)
    if not whole.clear:
        word = _blamed(adapter, truth) or word
    return GradientAgreement(case.name, word, whole.bits, whole.reason)


def gradient_agreements(system: str, cases: Iterable[Case], *, double: bool = False) -> Iterator[GradientAgreement]:
    """The same for many cases."""
    for case in cases:
        yield gradient_agreement(system, case, double=double)


def counted(system: str, agreements: Iterable[GradientAgreement], *, double: bool) -> dict[str, Any]:
    """How a framework did, as plain data: the cases that are not right with their reasons, and the fewest bits."""
    entries = list(agreements)
    return {
        "agreement": True,
        "system": system,
        "double": double,
        "words": dict(Counter(a.word for a in entries)),
        "others": [asdict(a) for a in entries if a.word in ("cannot tell", "wrong", "failed")],
    }


def main(arguments: list[str]) -> None:
    """Compare every framework that is named in both precisions, and write what came of it as JSON."""
    cases = [case for case in standard_cases("node") if has_gradient(case)]
    rows = []
    for system in arguments:
        for double in (False, True):
            shown = tqdm(cases, desc=f"{system} in float64" if double else system, disable=not sys.stderr.isatty())
            rows.append(counted(system, gradient_agreements(system, shown, double=double), double=double))
    sys.stdout.write(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
