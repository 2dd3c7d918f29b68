"""Public names: packages, what they offer, how it is called, and what registries hold. New names are free to come."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

import deep_bench as db
from tests.stored.stored import Texts, public, stored

GROUND = ("errors", "framework", "registry", "tensor", "variant")
"""Modules without a list of names whose names are public all the same."""

PACKAGES = (
    "deep_bench",
    "deep_bench.adapters.mpi",
    "deep_bench.adapters.onnxruntime",
    "deep_bench.adapters.torch",
    "deep_bench.check",
    "deep_bench.distributed",
    "deep_bench.environments",
    "deep_bench.experiments",
    "deep_bench.graph",
    "deep_bench.measure.roofline",
    "deep_bench.mlperf.inference",
    "deep_bench.mlperf.system",
    "deep_bench.mlperf.training",
    "deep_bench.network",
    "deep_bench.network.gradient",
    "deep_bench.network.inputs",
    "deep_bench.network.reduction",
    "deep_bench.network.sizes",
    "deep_bench.network.transform",
    "deep_bench.operators",
    "deep_bench.operators.checks",
    "deep_bench.operators.cost",
    "deep_bench.repeating",
    "deep_bench.results",
    "deep_bench.results.comparing",
    "deep_bench.results.export",
    "deep_bench.results.report",
    "deep_bench.testing",
    "deep_bench.training",
    "deep_bench.training.callbacks",
    "deep_bench.training.comparison",
    "deep_bench.training.containers",
    "deep_bench.training.initial",
    "deep_bench.training.loader",
    "deep_bench.training.networks",
    "deep_bench.training.preparation",
    "deep_bench.training.recipes",
    "deep_bench.training.runs",
    "deep_bench.training.samplers",
    "deep_bench.training.scores",
    "deep_bench.training.sets",
    "deep_bench.training.timeline",
    "deep_bench.training.validation",
    "deep_bench.training.workload",
)
REGISTRIES = (
    "communicators", "datasets", "distributed_optimizers", "frameworks", "networks", "optimizers", "samplers", "suites",
)  # fmt: skip


def _names() -> dict[str, list[str]]:
    """Each public package to the names that it lists; of the ground floor's modules to those that they define."""
    found = {package: sorted(public(package).__all__) for package in PACKAGES}
    for name in GROUND:
        module = public(f"deep_bench.{name}")
        own = [n for n, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        found[module.__name__] = sorted(n for n in own if not n.startswith("_"))
    return dict(sorted(found.items()))


def _default(parameter: inspect.Parameter) -> str:
    """How a default reads, where it reads the same every time."""
    if parameter.default is parameter.empty:
        return ""
    plain = isinstance(parameter.default, bool | int | float | str | tuple | None)
    return f"={parameter.default!r}" if plain else "=…"


def _signature(function: Any) -> list[str]:
    """Each parameter: its kind where it is not given by place or name, its name, and its default."""
    marks = {"POSITIONAL_ONLY": "/ ", "KEYWORD_ONLY": "* ", "VAR_POSITIONAL": "*args ", "VAR_KEYWORD": "**more "}
    parameters = inspect.signature(function).parameters.values()
    return [f"{marks.get(p.kind.name, '')}{p.name}{_default(p)}" for p in parameters]


def _signatures() -> dict[str, list[str]]:
    """Each public function or class to its parameters, where Python knows them."""
    found = {}
    for package, names in _names().items():
        for name in names:
            value = public(package, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                with contextlib.suppress(ValueError):
                    found[f"{package}.{name}"] = _signature(value)
    return found


def _registries() -> dict[str, list[str]]:
    return {name: sorted(getattr(db, name)) for name in REGISTRIES}


def texts() -> Texts:
    """The names that there are now."""
    makers = {"packages": _names, "signatures": _signatures, "registries": _registries}
    return {f"names/{name}.json": lambda make=make: json.dumps(make(), indent=1) + "\n" for name, make in makers.items()}


NAMES: dict[str, list[str]] = json.loads(stored("names/packages.json") or "{}")
SIGNATURES: dict[str, list[str]] = json.loads(stored("names/signatures.json") or "{}")
ENTRIES: dict[str, list[str]] = json.loads(stored("names/registries.json") or "{}")


@contextlib.contextmanager
def _skipped_without_libraries() -> Iterator[None]:
    """Skip what needs a library that is not installed; deep_bench itself is."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("deep_bench", "reference"):
            raise
        pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("package", NAMES)
def test_every_name_of_a_package_is_there(package: str) -> None:
    with _skipped_without_libraries():
        for name in NAMES[package]:
            public(package, name)


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_and_classes_take_what_they_took(name: str) -> None:
    package, _, short = name.rpartition(".")
    with _skipped_without_libraries():
        before, now = SIGNATURES[name], _signature(public(package, short))
    if any(parameter.startswith("**more ") for parameter in now):  # takes further keywords, checked when it is called
        now += [parameter for parameter in before if parameter.startswith("* ")]
    assert [parameter for parameter in before if parameter not in now] == []
    by_place = [parameter for parameter in before if not parameter.startswith("*")]
    assert now[: len(by_place)] == by_place


@pytest.mark.parametrize("registry", REGISTRIES)
def test_every_entry_of_a_registry_is_there(registry: str) -> None:
    entries = getattr(db, registry)
    assert set(ENTRIES[registry]) <= set(entries)
    for name in ENTRIES[registry]:
        if not entries.missing(name):
            assert entries[name] is not None
