"""``profile``: where the time and the memory of a network go, in several frameworks.

Memory is told by the lives of its values. ``chosen_algorithms`` asks what a framework's libraries say that they run for each
node.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.events import NodeProfile
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.measure.progress import Bars
from deep_bench.network.gradient import differentiate
from deep_bench.network.gradient.derived import origin
from deep_bench.network.problem import NetworkProblem, handed_over, make_problem
from deep_bench.network.profile_result import Memory, Needs, NodeFacts, Piece, Profile, SystemProfile
from deep_bench.operators.cost import KnownSizes, Sizes, Work, cost, traffic
from deep_bench.variant import Variant, variants_of
from deep_bench.workers.fleet import Contender, Fleet
from deep_bench.workers.process import Worker, failure_text

_SYSTEM = "deep_bench.network.system:NetworkSystem"
_INTERRUPTED = "not profiled: interrupted before it was reached"


def profile(
    network: str | Path | Network,
    systems: Sequence[str | Variant] | str | None = None,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    *,
    loss: str | None = None,
    repeat: int = 20,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    in_process: bool = False,
    progress: bool = True,
) -> Profile:
    """Find out where the time of a network goes in several frameworks, node by node.

    Each framework tells in its own way: ONNX Runtime by its own profiler, fused nodes as one; torch by its generated code
    with each step between two stamps, and autograd's nodes likewise; TensorFlow by an eager walk of the steps that its
    graph was traced from; the reference by its own walk. The pieces are aligned by the nodes of the ONNX graph. Observed
    calls are taken in turn with calls that nobody observes, and the two are never mixed: times of nodes are shares of an
    observed call; what a call takes is said by `deep_bench.network.run.run`.

    Args:
        network: A network, an ``.onnx`` file, or the name of a network that ships.
        systems: Frameworks with options, or a single one; by default all that are installed.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn by a seeded generator.
        loss: Name of an output of one element: forward and backward are profiled, with respect to all parameters.
        repeat: Observed calls, and calls that nobody observes.
        sizes: Open dimension to size; others are taken from the inputs, or chosen.
        batch: Size of the open first dimensions.
        seed: Of drawn inputs.
        in_process: Profile everything in this process, for a debugger.
        progress: Show progress bars, if standard error is a terminal.

    Returns:
        What was found. Ctrl-C ends it early; the result then holds the systems that were profiled, if any was.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        InvalidArgument: An option is out of range.
        UnknownName: A framework that does not exist.
        FrameworkMissing: A framework that is not installed.

    Example:
        >>> found = profile("digits-cnn", ["reference"], repeat=4, batch=1, in_process=True, progress=False)
        >>> found["reference"].in_nodes < found["reference"].observed
        True
        >>> [row.label for row in found.rows][:3], found.rows[0].work.flops
        (['stem', 'stem_norm', 'stem_relu'], 18432)
    """
    if repeat < 1:
        raise InvalidArgument(f"repeat={repeat}", "at least 1 call")
    variants = variants_of(systems)
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    if loss is not None and loss not in [spec.name for spec in problem.network.outputs]:
        outputs = ", ".join(spec.name for spec in problem.network.outputs)
        raise InvalidArgument(f"{problem.source.name} has no output {loss!r}", f"one of {outputs}", "see Network.with_loss")
    value_sizes = _sizes_of(problem.network, problem.inputs.arrays)
    needs = liveness(problem.network, value_sizes)
    facts = _node_facts(problem, value_sizes, loss)
    bars = Bars(progress)
    try:
        profiles = _profiled(problem, variants, loss, repeat, in_process, bars)
    finally:
        bars.close()
    return Profile(
        network=problem.source.name,
        sha256=problem.source.sha256,
        sizes=dict(problem.sizes.all),
        inputs=problem.inputs.origin,
        loss=loss,
        repeat=repeat,
        nodes=facts,
        needs=Needs(**vars(needs)),
        systems=profiles,
        in_process=in_process,
        interrupted=any(system.error == _INTERRUPTED for system in profiles),
    )


def _sizes_of(network: Network, inputs: Mapping[str, np.ndarray]) -> KnownSizes:
    """The sizes of a network's values; without those that only a run shows, where the reference cannot run it."""
    try:
        return KnownSizes(network, inputs)
    except Exception:  # NumPy raises whatever fits; each system says for itself what it cannot run
        return KnownSizes(network)


def _node_facts(problem: NetworkProblem, sizes: KnownSizes, loss: str | None) -> list[NodeFacts]:
    network = problem.network
    backward = {} if loss is None else _backward_work(network, loss, problem.inputs.arrays)
    return [
        NodeFacts(
            name=str(node.name),
            operator=operator_name(node),
            work=_work(node, sizes),
            bytes=None if (moved := traffic(node, sizes.nbytes)) is None else sum(moved),
            backward=backward.get(str(node.name)),
        )
        for node in network.nodes
    ]


def _work(node: ir.Node, sizes: KnownSizes) -> Work | None:
    estimate = cost(node, sizes)
    return None if estimate is None else Work(estimate.flops, estimate.special, estimate.comparisons)


def _backward_work(network: Network, loss: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Work | None]:
    """Node to the arithmetic of those that compute its gradients in the derived network, if it can be derived."""
    try:
        derived = differentiate(network, loss)
    except DeepBenchError:  # a framework's own autograd may still do it; each system says for itself what it cannot
        return {}
    sizes = _sizes_of(derived, inputs)
    node_names = {str(node.name) for node in network.all_nodes()}
    by_node: dict[str, Work | None] = {}
    for node in derived.nodes:
        name, direction = origin(str(node.name), node_names)
        if direction == "backward" and name:
            work, before = _work(node, sizes), by_node.get(name, Work())
            by_node[name] = None if work is None or before is None else before + work
    return by_node


def _profiled(
    problem: NetworkProblem, variants: Sequence[Variant], loss: str | None, repeat: int, in_process: bool, bars: Bars
) -> list[SystemProfile]:
    with tempfile.TemporaryDirectory(prefix="deep_bench_") as temporary:
        folder = Path(temporary)
        arguments = {**handed_over(problem, folder), "loss": loss}
        contenders = [Contender(str(v), _SYSTEM, {"variant": str(v), **arguments}) for v in variants]
        bars.phase("preparing", len(contenders), "systems")
        with Fleet(contenders, folder, in_process=in_process, starting=bars.begin) as fleet:
            for error in fleet.failures.values():
                if isinstance(error, InvalidArgument):
                    raise error  # a wrong option is the user's to mend
            bars.phase("profiling", len(contenders), "systems")
            # all systems one after the other; Ctrl-C keeps those that are done
            profiles: list[SystemProfile] = []
            try:
                for variant in variants:
                    profiles.append(_system_profile(fleet, variant, repeat, bars.begin))
            except KeyboardInterrupt:
                if not any(system.error is None for system in profiles):
                    raise
            late = variants[len(profiles) :]
            return [*profiles, *(SystemProfile(label=str(v), framework=v.framework, error=_INTERRUPTED) for v in late)]


def _system_profile(fleet: Fleet, variant: Variant, repeat: int, starting: Callable[[str], None]) -> SystemProfile:
    label = str(variant)
    starting(label)
    if label in fleet.failures:
        return SystemProfile(label=label, framework=variant.framework, error=failure_text(fleet.failures[label], label))
    facts = fleet.prepared[label]["facts"]
    try:
        reply = fleet.call(label, "profile", repeat)
    except DeepBenchError as error:
        return SystemProfile(
            label=label, framework=variant.framework, facts=facts["description"], error=failure_text(error, label)
        )
    return _as_plain(label, variant, facts, reply["profile"], reply["numpy"])


def _as_plain(
    label: str, variant: Variant, facts: Mapping[str, Any], profile: NodeProfile, numpy: Mapping[str, Any]
) -> SystemProfile:
    return SystemProfile(
        label=label,
        framework=variant.framework,
        facts=facts["description"],
        how=profile.how,
        pieces=[
            Piece(nodes=list(t.nodes), ns=t.ns.tolist(), what=t.what, direction=t.direction, whole=t.whole)
            for t in profile.times
        ],
        observed_ns=profile.observed_ns.tolist(),
        plain_ns=profile.plain_ns.tolist(),
        walk_ns=None if profile.walk_ns is None else profile.walk_ns.tolist(),
        inside_ns=None if profile.inside_ns is None else profile.inside_ns.tolist(),
        absent=dict(profile.absent),
        kernels={name: dict(kernels) for name, kernels in profile.kernels.items()},
        native_ns=numpy["native"].tolist(),
        numpy_ns=numpy["numpy"].tolist(),
        import_ns=facts["import_ns"],
        prepare_ns=facts["prepare_ns"] - facts["read_ns"],
        first_call_ns=facts["first_call_ns"],
        memory=Memory(**facts["resident"], allocator_peak=profile.allocated_bytes),
    )


@dataclass(frozen=True)
class Liveness:
    """Bytes, by the shapes of values and the order of the nodes.

    Args:
        parameters: Of all initializers.
        inputs: Of what is fed.
        peak: Of the most activations that are alive at once: from the node that makes a value to the last that reads it,
            and outputs to the end. Inputs and parameters are not among them.
        at: Name of the node at which that is.
        all_activations: Of all activations together: what must be kept where gradients are to follow.
        unknown: Number of values whose size is not known before a run, and that are left out.
    """

    parameters: int
    inputs: int
    peak: int
    at: str
    all_activations: int
    unknown: int


def liveness(network: Network, sizes: Sizes | None = None) -> Liveness:
    """How much memory values take at once when the nodes run in the order of the file.

    Values of subgraphs are not counted; a framework may reuse an input's memory for a result, or need room of its own.

    Args:
        network: With fixed input dimensions.
        sizes: Those of its values, if they are at hand.

    Example:
        >>> import deep_bench as db
        >>> found = liveness(db.load("digits-cnn").with_sizes({"batch": 1}))
        >>> found.peak, found.at  # 32 * 8 * 8 float32, read and written
        (16384, 'pointwise_relu')
    """
    sizes = sizes or KnownSizes(network)
    last = _last_uses(network)
    alive, peak, at, total, unknown = 0, 0, "", 0, 0
    for index, node in enumerate(network.nodes):
        for value in node.outputs:
            size = sizes.nbytes(value) if value.name else 0
            unknown += size is None
            alive += size or 0
            total += size or 0
        if alive > peak:
            peak, at = alive, str(node.name)
        alive -= sum(sizes.nbytes(value) or 0 for value in last.get(index, ()))
    fed = [v for v in network.graph.inputs if v.name not in network.graph.initializers]
    return Liveness(
        sum(array.nbytes for array in network.initializers.values()),
        sum(sizes.nbytes(value) or 0 for value in fed),
        peak,
        at,
        total,
        unknown,
    )


def _last_uses(network: Network) -> dict[int, list[ir.Value]]:
    """Index of a node to the values that no later one reads, and that are no outputs."""
    outputs = set(network.graph.outputs)
    last: dict[ir.Value, int] = {}
    for index, node in enumerate(network.nodes):
        captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
        for value in (*node.outputs, *node.inputs, *captured):
            if value is not None and value.producer() is not None and value not in outputs:
                last[value] = index
    by_index: dict[int, list[ir.Value]] = {}
    for value, index in last.items():
        if value.name:
            by_index.setdefault(index, []).append(value)
    return by_index


_ASK = {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}


def chosen_algorithms(
    network: str | Path | Network,
    on: str | Variant,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
) -> dict[str, tuple[str, ...] | str]:
    """Find out which algorithm a framework chose for each node, where its libraries say so.

    oneDNN names its implementation and the algorithm (``brg_conv_fwd:avx512_core convolution_direct``), oneMKL the function
    (``SGEMM``: a convolution in columns), CUDA the kernels. They are asked to in a process of its own, which runs the
    network twice; the choice may depend on shapes, threads and the machine.

    Args:
        network: A network, an ``.onnx`` file, or the name of a network that ships.
        on: A framework with options.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn by a seeded generator.
        sizes: Open dimension to size; others are taken from the inputs, or chosen.
        batch: Size of the open first dimensions.
        seed: Of drawn inputs.

    Returns:
        Name of each node to what its libraries said, in their own words; or to the reason why it is not known.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        UnknownName: A framework that does not exist.
        FrameworkMissing: A framework that is not installed.
        UnsupportedOperator: A node cannot run there.

    Example:
        >>> found = chosen_algorithms("digits-cnn", "torch:threads=1", batch=8)
        >>> found["stem"][0].split()[0] in ("oneDNN", "oneMKL"), found["flatten"]
        (True, "a kernel of torch's own, which does not say its algorithm")
    """
    variant = on if isinstance(on, Variant) else Variant.parse(on)
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    names = [str(node.name) for node in problem.network.nodes]
    with tempfile.TemporaryDirectory(prefix="deep_bench_") as temporary:
        folder = Path(temporary)
        arguments = {**handed_over(problem, folder), "variant": str(variant), "loss": None}
        with Worker(_SYSTEM, arguments, label=str(variant), log=folder / "log", environment=_ASK) as worker:
            worker.prepare()
            try:
                return dict(worker.call("algorithms"))
            except Unsupported as error:
                return dict.fromkeys(names, error.came)


def algorithm_lines(network: Network, found: Mapping[str, tuple[str, ...] | str]) -> list[str]:
    """One line for each node: its name, its operator, and what runs it, or why that is not known.

    Args:
        network: The network.
        found: Its `chosen_algorithms`.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> algorithm_lines(network, chosen_algorithms(network, "reference", batch=1))[0]
        'stem            Conv                im2col'
    """
    operators = {str(node.name): operator_name(node) for node in network.nodes}
    widths = [max(map(len, names), default=0) for names in (found, (operators.get(name, "") for name in found))]
    return [
        f"{name:{widths[0]}}  {operators.get(name, ''):{widths[1]}}  "
        f"{answer if isinstance(answer, str) else _counted(answer)}"
        for name, answer in found.items()
    ]


def _counted(algorithms: tuple[str, ...]) -> str:
    """What was said, each once, with how often where that is more than once."""
    return "; ".join(f"{algorithm} (x {n})" if n > 1 else algorithm for algorithm, n in Counter(algorithms).items())
