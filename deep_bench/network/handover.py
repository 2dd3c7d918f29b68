"""What the processes of the systems under test are given of a problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_bench.network.kernels import pickled
from deep_bench.network.problem import Problem


def handed_over(problem: Problem, folder: Path, name: str = "network") -> dict[str, Any]:
    """The network in files, its inputs, and apart from the files the kernels that are attached to its nodes.

    Args:
        problem: What is run.
        folder: Where files are written; it must exist.
        name: Of the files, without their suffix.

    Returns:
        ``network``, ``source`` (the network as it was given), ``inputs`` and ``kernels``, as the systems take them.
    """
    (folder / "given").mkdir()
    network = problem.network.without_kernels().save(folder / f"{name}.onnx")
    source = problem.source.source or problem.source.without_kernels().save(folder / "given" / f"{name}.onnx")
    return {
        "network": str(network),
        "source": str(source.resolve()),
        "inputs": dict(problem.inputs.arrays),
        "kernels": pickled(problem.network),
    }
