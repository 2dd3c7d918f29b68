"""Inputs for a network: read from a file, given, or drawn."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_bench.arrays import digest
from deep_bench.errors import InvalidInput
from deep_bench.framework import check_inputs
from deep_bench.graph import Network
from deep_bench.graph.drawing import draw_inputs

__all__ = ["Inputs", "draw_inputs", "prepare_inputs", "read_inputs"]


@dataclass(frozen=True)
class Inputs:
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


def prepare_inputs(network: Network, given: Mapping[str, np.ndarray] | None, origin: str, seed: int) -> Inputs:
    """Given arrays, checked against the network; or drawn ones.

    Raises:
        InvalidInput: A given array does not fit.
    """
    if given is not None:
        return Inputs(check_inputs(network.inputs, given), origin)
    return Inputs(draw_inputs(network, seed), f"generator, seed {seed}", seed)
