"""What matters of where a result was taken, as named facts; and which facts and labels go together."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from deep_bench.measure.environment import PACKAGES, Environment
from deep_bench.results.result import Result

UNKNOWN = "unknown"

IGNORED = frozenset({"launches", "cell", "host"})
"""Labels that are no reason not to compare: a number of samples, a name of other labels, and what is a fact here."""

_PACKAGES = {
    "torch": ("torch", "triton"),
    "tensorflow": ("tensorflow", "keras"),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "jax": ("jax",),
}
"""Framework to the packages that it alone uses."""

OWNED = frozenset(package for packages in _PACKAGES.values() for package in packages)
"""Packages that are a part of one framework."""

_VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|GOTO|VECLIB|NUMEXPR|KMP|GOMP|ORT|TF|XLA|ONEDNN|DNNL|TORCH|PYTORCH|ATEN|NCCL|UCX|MALLOC)_\w+|"
    r"NVIDIA_TF32_OVERRIDE|CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING)|LD_PRELOAD|PYTHON(MALLOC|OPTIMIZE)|"
    r"OMPI_COMM_WORLD_(LOCAL_)?SIZE|OMPI_MCA_(btl|pml|mtl|coll|rmaps)\w*|I_MPI_(FABRICS|PIN)\w*|"
    r"SLURM_(NTASKS|NPROCS|NNODES|NTASKS_PER_NODE|TASKS_PER_NODE|CPUS_PER_TASK|CPU_BIND|THREADS_PER_CORE)"
)
"""The environment variables that change a time or a result: threads, precision, memory, devices, the layout of ranks."""

_THREAD_VARIABLES = re.compile(r"\w+_NUM_\w*THREADS|(OMP|KMP|GOMP)_\w+|SLURM_CPUS_PER_TASK")

_MACHINE = (
    "host", "cpu model", "architecture", "cores", "logical cpus", "numa nodes", "instruction sets", "gpus",
    "virtual machine", "operating system", "kernel", "container", "framework.instruction_set",
)  # fmt: skip
_PLAIN = (
    "cpu model", "architecture", "cores", "logical cpus", "kernel", "governor", "turbo", "smt", "python",
)  # fmt: skip
_CLOCK = ("governor", "turbo", "smt")
_THREADS = ("cpus allowed", "cpu limit", "blas threads")
_BUILD = ("blas", "python")

GROUPS: dict[str, tuple[str, ...]] = {"machine": _MACHINE, "clock": _CLOCK, "threads": (), "versions": ()}
"""Names for several facts at once; which threads and versions are meant depends on what is known."""


def facts_of(result: Result) -> dict[str, str]:
    """Name to value of each fact that may change the result; what is not known is *unknown*.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> where = Environment(governor="performance", packages={"torch": "2.9", "jax": "0.8"})
        >>> result = Result("network", Path(), datetime.now(), {"framework": "torch"}, {}, environment=where)
        >>> found = facts_of(result)
        >>> found["governor"], found["torch"], found["commit"], "jax" in found
        ('performance', '2.9', 'unknown', False)
    """
    e = result.environment or Environment()
    plain = {
        "host": e.hostname,
        "numa nodes": e.numa_nodes,
        "operating system": e.system,
        "virtual machine": e.virtual_machine,
        "instruction sets": e.instruction_sets and " ".join(e.instruction_sets),
        "gpus": None if e.gpus is None else ", ".join(gpu.name for gpu in e.gpus) or "none",
        "cpus allowed": None if e.cpus_allowed is None else len(e.cpus_allowed),
        "blas threads": _of_blas(e, "num_threads"),
        "blas": _of_blas(e, "internal_api", "version", "threading_layer", "architecture"),
        "commit": _commit(e),
        **{name: getattr(e, name.replace(" ", "_")) for name in _PLAIN},
    }
    facts = {name: UNKNOWN if value is None else str(value) for name, value in plain.items()}
    facts["container"], facts["cpu limit"] = e.container or "none", "none" if e.cpu_limit is None else f"{e.cpu_limit:g}"
    return facts | _packages(e, result.labels.get("framework", "")) | _variables(e)


def _of_blas(e: Environment, *keys: str) -> str | None:
    if e.blas is None:
        return None
    return "; ".join(sorted(" ".join(str(pool.get(key)) for key in keys) for pool in e.blas))


def _commit(e: Environment) -> str | None:
    if not e.git:
        return None
    return f"{str(e.git.get('commit', ''))[:12]}{' with changes' if e.git.get('dirty') else ''}"


def _packages(e: Environment, framework: str) -> dict[str, str]:
    """The versions of all packages but those that only other frameworks use."""
    excluded = OWNED - {*_PACKAGES[framework]} if framework in _PACKAGES else ()
    return {name: version for name, version in e.packages.items() if name not in excluded}


def _variables(e: Environment) -> dict[str, str]:
    return {name: value for name, value in e.variables.items() if _VARIABLES.fullmatch(name)}


def expanded(names: Iterable[str], known: Collection[str]) -> set[str]:
    """Labels and facts that some names stand for.

    A label brings those that are its details (``optimizer`` has ``optimizer.lr``) or say the same in other words.

    Args:
        names: Of labels, facts, or groups of facts.
        known: All labels and facts.

    Example:
        >>> sorted(expanded(["framework"], ["framework", "system", "version", "option.threads", "torch", "case"]))
        ['framework', 'system', 'torch', 'version']
        >>> sorted(expanded(["clock"], ["smt", "host", "governor"]))
        ['governor', 'smt']
    """
    labels: set[str] = set()
    for name in names:
        labels |= {name, *_meant(name, known)} & {*known}
    return labels


def _meant(name: str, labels: Collection[str]) -> set[str]:
    options = {label for label in labels if label.startswith("option.")}
    built = {label for label in labels if label.startswith("framework.")}
    if name == "system":
        return {"framework", "version", "device", *options, *built, *OWNED}
    if name == "framework":
        return {"system", "version", "device", *built, *OWNED}
    if name == "version":
        return {*built, *OWNED}
    if name == "device":
        return built
    if name in OWNED:
        return {"version", *built}
    if name in options:
        return {"system", "device", *built}
    if name == "versions":
        return {"version", *built, *_BUILD, *PACKAGES}
    if name == "threads":
        return {*_THREADS, "framework.threads", *(label for label in labels if _THREAD_VARIABLES.fullmatch(label))}
    return {*GROUPS.get(name, ()), *(label for label in labels if label.startswith(f"{name}."))}


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The names whose values differ, to both; what one side does not have is an em dash.

    Example:
        >>> differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
        {'b': ('2', '3'), 'c': ('—', '4')}
    """
    names = dict.fromkeys([*before, *after])
    both = {name: (before.get(name, "—"), after.get(name, "—")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}
