"""``chosen_algorithms``: what a framework's libraries say that they run for each node."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.graph import Network, operator_name
from deep_bench.measure.workers import Worker
from deep_bench.network.handover import handed_over
from deep_bench.network.problem import make_problem
from deep_bench.variant import Variant

_SYSTEM = "deep_bench.network.profiling.system:ProfiledSystem"
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
