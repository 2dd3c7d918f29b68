"""A network with sizes and inputs: what every system under test is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_bench.errors import DeepBenchError, InvalidInput, InvalidNetwork
from deep_bench.graph import Network, as_network
from deep_bench.network.inputs import Inputs, prepare_inputs, read_inputs
from deep_bench.network.sizes import Sizes, choose_sizes


@dataclass(frozen=True)
class Problem:
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
    inputs: Inputs


def make_problem(
    network: str | Path | Network,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
) -> Problem:
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
    _check_tensors(source)
    is_file = isinstance(inputs, str | Path)
    arrays = read_inputs(inputs) if isinstance(inputs, str | Path) else inputs
    chosen = choose_sizes(source, sizes or {}, batch=batch, inputs=arrays)
    fixed = source.with_sizes(chosen.all) if chosen.all else source
    origin = f"file {inputs}" if is_file else "caller"
    return Problem(fixed, source, chosen, prepare_inputs(fixed, arrays, origin, seed))


@contextmanager
def suitable(name: str, advice: str = "give some with --input, or other sizes with --size") -> Iterator[None]:
    """What the reference raises inside: it cannot run a network on inputs that do not suit it.

    Args:
        name: The network's.
        advice: What to do then.

    Raises:
        InvalidInput: Anything but an error of deep_bench's was raised.
    """
    try:
        yield
    except DeepBenchError:
        raise
    except Exception as error:  # NumPy raises whatever fits
        where = " ".join(getattr(error, "__notes__", []))
        raise InvalidInput(
            f"the reference cannot run {name} on these inputs: {error} {where}".strip(),
            "inputs of values and sizes that suit the network",
            advice,
        ) from error


def _check_tensors(network: Network) -> None:
    for spec in (*network.inputs, *network.outputs):
        if not spec.is_tensor:
            raise InvalidNetwork(
                f"{network.name} has the input or output {spec}",
                "tensors, since only those are drawn, timed and judged here",
                "call its executor directly: db.frameworks[name]().prepare(network)({name: list_of_arrays})",
            )
