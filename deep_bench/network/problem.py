"""A network with sizes and inputs: what every system under test is given.

Inputs are read from a file, given, or drawn. The processes of the systems get the network in files, and apart from these the
kernels that are attached to its nodes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.arrays import digest
from deep_bench.errors import InvalidInput, InvalidNetwork
from deep_bench.framework import check_inputs
from deep_bench.graph import Network, as_network
from deep_bench.graph.drawing import Sizes, choose_sizes, draw_inputs
from deep_bench.graph.node import Kernel
from deep_bench.workers.pickling import dumped, loaded

__all__ = ["NetworkInputs", "prepare_inputs", "read_inputs"]


@dataclass(frozen=True)
class NetworkInputs:
    """The arrays that a network is fed.

    Args:
        arrays: Name to array.
        origin: Where they come from: ``"file inputs.npz"``, ``"generator, seed 7"``, ``"caller"``.
        seed: The generator's seed, if they were drawn.
    """

    arrays: Mapping[str, np.ndarray]
    origin: str
    seed: int | None = None

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each array's type, shape and contents."""
        return {name: digest(array) for name, array in self.arrays.items()}


@dataclass(frozen=True)
class NetworkProblem:
    """What is run.

    Args:
        network: The network with every input dimension fixed.
        source: The network as it was given.
        sizes: How its open dimensions were fixed.
        inputs: What it is fed.
    """

    network: Network
    source: Network
    sizes: Sizes
    inputs: NetworkInputs


def make_problem(
    network: str | Path | Network,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
) -> NetworkProblem:
    """Load a network, fix its sizes, and read or draw its inputs.

    Args:
        network: A network, a file, or the name of one that ships.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn.
        sizes: Open dimension to size.
        batch: Size of the open first dimensions.
        seed: Of the generator that draws inputs.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        InvalidArgument: A size for a dimension that is not open.
    """
    source = as_network(network)
    for spec in (*source.inputs, *source.outputs):
        if not spec.is_tensor:
            raise InvalidNetwork(
                f"{source.name} has the input or output {spec}",
                "tensors, since only those are drawn, timed and judged here",
                "call its executor directly: db.frameworks[name]().prepare(network)({name: list_of_arrays})",
            )
    is_file = isinstance(inputs, str | Path)
    arrays = read_inputs(inputs) if isinstance(inputs, str | Path) else inputs
    chosen = choose_sizes(source, sizes or {}, batch=batch, inputs=arrays)
    fixed = source.with_sizes(chosen.all) if chosen.all else source
    origin = f"file {inputs}" if is_file else "caller"
    return NetworkProblem(fixed, source, chosen, prepare_inputs(fixed, arrays, origin, seed))


def read_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file; pickled objects in it are refused.

    Raises:
        InvalidInput: The file is missing, no ``.npz``, truncated, or holds pickled objects.
    """
    path = Path(path)
    if not path.is_file():
        reason = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidInput(f"the inputs' file {str(path)!r} {reason}", "an .npz file with one array per input")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, MemoryError) as error:
        raise InvalidInput(
            f"{path} cannot be read as an .npz file, or holds pickled objects, which are never read",
            "a file written by numpy.savez from plain arrays",
            "write it again: numpy.savez(path, name=array)",
        ) from error


def prepare_inputs(network: Network, given: Mapping[str, np.ndarray] | None, origin: str, seed: int) -> NetworkInputs:
    """Given arrays, checked against the network; or drawn ones.

    Raises:
        InvalidInput: A given array does not fit.
    """
    if given is not None:
        return NetworkInputs(check_inputs(network.inputs, given), origin)
    return NetworkInputs(draw_inputs(network, seed), f"generator, seed {seed}", seed)


def pickled(network: Network) -> dict[str, bytes]:
    """Name of each node that a kernel computes to that kernel, pickled; what another process cannot import goes along whole.

    Raises:
        InvalidArgument: A kernel cannot be pickled.
    """
    pickles: dict[int, bytes] = {}
    for kernel in network.kernels.values():
        pickles.setdefault(id(kernel), dumped(kernel, kernel.name))
    return {name: pickles[id(kernel)] for name, kernel in network.kernels.items()}


def unpickled(kernels: Mapping[str, bytes]) -> dict[str, Kernel]:
    """The inverse of `pickled`.

    Raises:
        InvalidInput: A kernel cannot be read here.
    """
    by_content: dict[bytes, Any] = {}
    for node, content in kernels.items():
        if content not in by_content:
            by_content[content] = loaded(content, f"the kernel of the node {node!r}")
    return {node: by_content[content] for node, content in kernels.items()}


def described(network: Network) -> str:
    """Which kernels compute which nodes, in one sentence; empty where there are none.

    Example:
        >>> import deep_bench as db
        >>> described(db.load("digits-cnn"))
        ''
    """
    nodes: dict[str, list[str]] = {}
    for node, kernel in network.kernels.items():
        nodes.setdefault(kernel.name, []).append(node)
    parts = (f"{name} computes {', '.join(members)}" for name, members in nodes.items())
    return f"kernels in the place of nodes: {'; '.join(parts)}" if nodes else ""


def handed_over(problem: NetworkProblem, folder: Path, name: str = "network") -> dict[str, Any]:
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
