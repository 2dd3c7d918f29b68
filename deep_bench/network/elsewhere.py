"""From a variant to a contender: in this Python environment, in another one that has deep_bench, or in a lean one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from deep_bench.environments import Lean, place_of
from deep_bench.environments.lean import SYSTEM as LEAN_SYSTEM
from deep_bench.environments.stamp import stamped_run
from deep_bench.errors import Unsupported
from deep_bench.graph import Network
from deep_bench.measure.fleet import Contender
from deep_bench.network.problem import Problem
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.network.transform.check import check
from deep_bench.variant import Variant, lean_frameworks

_SYSTEM = "deep_bench.network.system:NetworkSystem"


def contender_of(variant: Variant, problem: Problem, given: Mapping[str, Any]) -> Contender:
    """A system under test, before it is started.

    Args:
        variant: The framework with its options, and its environment if it has one.
        problem: What is run.
        given: The same as `deep_bench.network.handover.handed_over` wrote it.

    Raises:
        UnknownName, InvalidArgument: There is no such environment, or a lean framework has no such option.
        Unsupported: A kernel of the user's is in the network, which lives in this environment; or a lean framework cannot
            run the network, and why.
    """
    label = str(variant)
    if variant.environment is None:
        return Contender(label, _SYSTEM, {"variant": label, **given})
    place = place_of(variant.environment, lean=variant.lean)
    if kernels := problem.network.kernels:
        raise Unsupported(
            f"{label}: the node {next(iter(kernels))!r} is computed by a kernel of yours, which lives in this environment",
            "a network without kernels for another environment",
        )
    if not variant.lean:
        return Contender(label, _SYSTEM, {"variant": str(variant.here), **given}, place=place, translate=stamped_run)
    lean: Lean = lean_frameworks[variant.framework]
    arguments = {
        **lean.arguments(variant.options),
        "network": _trusted(lean, problem),
        "inputs": given["inputs"],
        "quantities": (NATIVE, NUMPY),
    }

    def rewritten(method: str, call_arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if method != "run":
            return call_arguments
        network = Network.from_proto(onnx.load_from_string(call_arguments[0]))
        return lean.rewrite(network), *call_arguments[1:]

    return Contender(label, LEAN_SYSTEM, arguments, place=place, translate=rewritten)


def _trusted(lean: Lean, problem: Problem) -> bytes:
    """The network as a lean framework reads it; the reference must find that it computes the same as the original.

    Raises:
        Unsupported: A node cannot be rewritten; or what came out computes something else.
    """
    rewritten = lean.rewrite(problem.network)
    after = Network.from_proto(onnx.load_from_string(rewritten), name=problem.network.name)
    assessment = check(problem.network, after, problem.inputs.arrays)
    if assessment.word not in ("right", "no information"):
        name = problem.network.name
        raise Unsupported(
            f"{name} as it was rewritten for {lean.name} does not compute the same: {assessment.word}: {assessment.reason}",
            "a rewriting that rounding explains",
        )
    return rewritten
