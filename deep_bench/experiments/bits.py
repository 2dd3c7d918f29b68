"""How many significant bits the results of a cell can have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import NetworkFields, OperatorsFields
from deep_bench.experiments.files import is_file_name, suite_of_cases
from deep_bench.tensor import is_inexact, significand_bits


def most_bits(cell: Cell) -> int:
    """The bits of the widest floating-point type in a cell; those of float64 where its types are not known before it runs.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> [most_bits(load_experiment(name).cells[-1]) for name in ("small-network", "small-operators")]
        [24, 53]
    """
    bits = (significand_bits(dtype) for dtype in _types(cell) if is_inexact(dtype))
    return max(bits, default=significand_bits(np.dtype(np.float64)))


def _types(cell: Cell) -> Iterable[np.dtype]:
    """The types of the data that a cell is given; none where only a file tells, which may be large or not be here yet."""
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        return _of_cases(cell, fields)
    if isinstance(fields, NetworkFields) and isinstance(fields.network, str) and not fields.transform:
        return _of_network(fields.network)
    return ()


def _of_cases(cell: Cell, fields: OperatorsFields) -> Iterable[np.dtype]:
    from deep_bench.operators.suites.find import suite_of

    if fields.suite is not None and Path(fields.suite).suffix:
        return ()
    suite = suite_of_cases(cell) if fields.suite is None else suite_of(fields.suite)
    suite = suite if fields.dtype is None else suite.with_dtype(fields.dtype)
    return [argument.dtype for case in suite for argument in case.arguments if argument is not None]


def _of_network(name: str) -> Iterable[np.dtype]:
    from deep_bench.graph import load

    if is_file_name(name):
        return ()
    network = load(name)
    return [spec.dtype for spec in (*network.inputs, *network.outputs)]
