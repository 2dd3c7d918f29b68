"""The ONNX standard's own test cases, run on an adapter.

On a generated case, whether rounding alone explains how a system differs from the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.check.subject import SubjectCalls
from deep_bench.errors import DeepBenchError, InvalidNetwork, Unsupported
from deep_bench.framework import Adapter, Forms
from deep_bench.graph import Network, operator_name
from deep_bench.tensor import is_float, is_inexact, is_integer
from deep_bench.testing.case import AMENDMENTS, Case, amended
from deep_bench.testing.random import draws_always, is_random


def rounding_verdict(
    adapter: Adapter[Any], network: Network, inputs: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[str, str]:
    """The checker's word and reason.

    Args:
        adapter: The system under test.
        network: The case's network.
        inputs: Name to value.
        found: Name to value of its outputs.

    Returns:
        ``wrong`` at once where nothing is rounded or a value is no tensor.
    """
    specs = (*network.inputs, *network.outputs)
    if not all(spec.is_tensor for spec in specs) or not any(is_inexact(spec.dtype) for spec in specs):
        return "wrong", "nothing is rounded here"
    outputs = {name: np.array(array) for name, array in found.items()}  # a second evaluation may be right where this was not
    run = InProcessSubject(adapter, network, inputs).run
    verdict = judge(establish(network, inputs), SubjectCalls(lambda: outputs, run, adapter.upgrades))
    return verdict.word, verdict.reason


DIFFER = "elements differ"

Word = Literal["passed", "wrong", "refused", "failed", "undecided", "skipped"]
"""``wrong``: an answer, and not the right one; ``refused``: said in ``prepare`` that it cannot; ``failed``: any other error;
``undecided``: a generated case differs, and the checker cannot tell whether by rounding; ``skipped``: other draws than the
case's, where the case is random."""


CaseForm = Literal["native", "decomposed", "fallback", "folded"]
FORMS: tuple[CaseForm, ...] = ("native", "decomposed", "fallback", "folded")
_NATIVENESS: tuple[CaseForm, ...] = ("fallback", "decomposed", "native")


@dataclass(frozen=True)
class Outcome:
    """How an adapter did on a case.

    Args:
        case: The case's name.
        word: How it ended.
        detail: What differs, or the error.
        forms: Operator to how its nodes were run; the least native one where they differ.
    """

    case: str
    word: Word
    detail: str = ""
    forms: Mapping[str, CaseForm] = field(default_factory=dict)

    @property
    def form(self) -> CaseForm:
        """How the case was run: ``fallback`` if any node was, else ``decomposed`` if any was; ``folded`` if none had to."""
        return min(self.forms.values(), key=_NATIVENESS.index, default="folded")


def run_case(adapter: Adapter[Any], case: Case) -> Outcome:
    """Prepare and run a case, and compare its outputs with the standard's by the case's own tolerances.

    A case that draws random numbers is skipped unless a seed makes a system give the standard's own draws.
    """
    try:
        network = Network.from_proto(case.proto, name=case.name)
        executor = adapter.prepare(network)
    except (Unsupported, InvalidNetwork) as error:
        return Outcome(case.name, "refused", str(error))
    except Exception as error:  # whatever a framework raises, it costs this case only
        return Outcome(case.name, "failed", f"prepare: {type(error).__name__}: {error}")
    forms = _forms(network, executor.forms)
    try:
        feeds = {spec.name: _fed(a) for spec, a in zip(network.inputs, case.inputs, strict=True)}
        outputs = executor(feeds)
    except (DeepBenchError, Exception) as error:
        return Outcome(case.name, "failed", f"call: {type(error).__name__}: {error}", forms)
    strange = _strange(case, outputs)
    if strange:
        return Outcome(case.name, "failed", f"call: returned {strange}", forms)
    word, detail = judge_outputs(case, list(outputs.values()))
    if word == "wrong" and case.kind == "generated":
        word, detail = _adjudicated(adapter, network, feeds, outputs, detail)
    return Outcome(case.name, word, detail, forms)


def _strange(case: Case, outputs: Mapping[str, Any]) -> str:
    """What is not as every executor must return it: arrays, or lists of them, by the names of the network's outputs."""
    if not isinstance(outputs, Mapping):
        return f"a {type(outputs).__name__} instead of a dictionary"
    names = [value.name for value in case.proto.graph.output]
    if list(outputs) != names:
        return f"outputs named {', '.join(map(repr, outputs)) or '(none)'} instead of {', '.join(map(repr, names))}"
    arrays = [a for value in outputs.values() for a in (value if isinstance(value, list | tuple) else [value])]
    kinds = {type(a).__name__ for a in arrays if not (a is None or isinstance(a, list | np.ndarray | np.generic))}
    return f"a {kinds.pop()} instead of a NumPy array" if kinds else ""


def _adjudicated(
    adapter: Adapter[Any], network: Network, feeds: Mapping[str, Any], outputs: Mapping[str, Any], detail: str
) -> tuple[Word, str]:
    """What differs from the reference by more than a few roundings is judged by the rounding-error estimate."""
    verdict, reason = rounding_verdict(adapter, network, feeds, outputs)
    if verdict == "right":
        return "passed", ""
    word: Word = "wrong" if verdict in ("wrong", "reduced precision") else "undecided"
    return word, f"{detail}; {verdict}: {reason}"


def judge_outputs(case: Case, found: Sequence[Any]) -> tuple[Word, str]:
    """What a system's outputs are worth: ``passed``, ``wrong``, or ``skipped`` if the case is random and only draws differ.

    A case whose every output is drawn is skipped even where the draws happen to be the case's.

    Where the case itself is at fault, what it should have asked for passes too (`AMENDMENTS`).
    """
    with np.errstate(all="ignore"):  # some cases compare what overflows or is no number
        details = list(_differences(case, found))
        if details and case.name in AMENDMENTS and not any(_differences(amended(case), found)):
            return "passed", f"the case is at fault: {AMENDMENTS[case.name].reason}"
    only_values = all(detail.endswith(DIFFER) for detail in details)
    if only_values and (draws_always(case) or (details and is_random(case))):
        return "skipped", "random: its draws need not be the case's; their distribution is tested apart"
    return ("wrong", "; ".join(details)) if details else ("passed", "")


def _forms(network: Network, forms: Forms) -> Mapping[str, CaseForm]:
    """Operator to form, of the operators that the network's file contains."""
    named: dict[str, CaseForm] = dict.fromkeys(forms.native, "native")
    named |= dict.fromkeys(forms.decomposed, "decomposed")
    named |= dict.fromkeys(forms.fallback, "fallback")
    by_operator: dict[str, CaseForm] = {}
    for node in network.all_nodes():
        form = named.get(str(node.name))
        if form is not None:
            by_operator[operator_name(node)] = min(form, by_operator.get(operator_name(node), form), key=_NATIVENESS.index)
    return by_operator


def _fed(value: Any) -> Any:
    return value if value is None or isinstance(value, list | tuple) else np.asarray(value)


def _differences(case: Case, outputs: Sequence[Any]) -> Iterator[str]:
    if len(outputs) != len(case.outputs):
        yield f"{len(outputs)} outputs instead of {len(case.outputs)}"
        return
    for value, got, want in zip(case.proto.graph.output, outputs, case.outputs, strict=True):
        difference = _difference(got, want, case)
        if difference:
            yield f"{value.name}: {difference}"


def _difference(got: Any, want: Any, case: Case) -> str:
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return "another sequence length"
        return next((d for g, w in zip(got, want, strict=True) if (d := _difference(g, w, case))), "")
    if want is None or got is None:
        return "" if want is got else "an empty optional on one side"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)} instead of {list(want.shape)}"
    if want.dtype.kind in "OUST":
        return "" if (got.astype(str) == want.astype(str)).all() else "other strings"
    if got.dtype != want.dtype:
        return f"element type {got.dtype} instead of {want.dtype}"
    if is_float(want.dtype):
        # A case's tolerances are made for float32; a narrower format is allowed a few of its own roundings.
        coarse = want.dtype.itemsize < 2 or want.dtype.name == "bfloat16"
        rtol = max(case.rtol, 2.0**-6 if coarse else 2.0**-9 if want.dtype == np.float16 else 0)
        close = np.isclose(got.astype(np.float64), want.astype(np.float64), rtol, case.atol, equal_nan=True)
    elif is_integer(want.dtype) or want.dtype == bool:
        close = got.astype(object) == want.astype(object)
    else:
        close = np.isclose(got, want, case.rtol, case.atol, equal_nan=True)
    return "" if np.all(close) else f"{np.size(close) - np.count_nonzero(close)} of {np.size(close)} {DIFFER}"
