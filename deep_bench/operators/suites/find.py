"""A suite from whatever a caller has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite


def suite_of(given: str | Path | Network | Suite | Case | Iterable[Case]) -> Suite:
    """A suite.

    Args:
        given: A suite; one case or several; a name in ``db.suites`` or an import path; a ``.toml`` file that holds a suite;
            an ``.onnx`` file or a network, whose nodes are taken.

    Raises:
        UnknownName: No such suite; the nearest name is suggested.
        InvalidArgument: A file that cannot be read, or that is neither, or something else than cases.

    Example:
        >>> suite_of("deepbench/gemm/device"), suite_of(Case.of("Gelu", (2, 3)))
        (Suite('deepbench/gemm/device', 13 cases), Suite('Gelu 2x3', 1 cases))
    """
    if isinstance(given, Suite):
        return given
    if isinstance(given, Case):
        return Suite(given.name, [given])
    if isinstance(given, Network):
        return _from_network(given)
    if isinstance(given, str | Path):
        return _named(given)
    if isinstance(given, Iterable):
        return Suite("cases", list(given))
    raise InvalidArgument(f"{given!r} as a suite", "a name, a .toml or .onnx file, a network, a suite, or cases")


def _named(name: str | Path) -> Suite:
    suffix = Path(name).suffix
    if suffix == ".toml":
        return Suite.from_toml(name)
    if suffix == ".onnx":
        return _from_network(Path(name))
    from deep_bench import suites

    suite = suites[str(name)]
    if not isinstance(suite, Suite):
        raise InvalidArgument(f"{str(name)!r} is a {type(suite).__name__}", "a suite, or a function that makes one")
    return suite


def _from_network(network: Network | Path) -> Suite:
    from deep_bench.operators.suites.from_network import cases_of

    return cases_of(network)
