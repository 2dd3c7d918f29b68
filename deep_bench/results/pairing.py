"""Which result of one side of a comparison belongs to which of the other, and what tells the two sides apart.

What matters of where a result was taken is a set of named facts. A copy of a record is no further launch, whatever its
file is called; some figures differ from one start of a process to the next.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from os.path import commonpath
from pathlib import Path

import numpy as np

from deep_bench.errors import Incomparable, InvalidArgument, UnknownName, short_digests
from deep_bench.measure.compare import differs_by_start
from deep_bench.measure.environment import PACKAGES, Environment
from deep_bench.results.result import Figure, Result, worst

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
        "blas threads": _blas_facts(e, "num_threads"),
        "blas": _blas_facts(e, "internal_api", "version", "threading_layer", "architecture"),
        "commit": _commit(e),
        **{name: getattr(e, name.replace(" ", "_")) for name in _PLAIN},
    }
    facts = {name: UNKNOWN if value is None else str(value) for name, value in plain.items()}
    facts["container"], facts["cpu limit"] = e.container or "none", "none" if e.cpu_limit is None else f"{e.cpu_limit:g}"
    return facts | _packages(e, result.labels.get("framework", "")) | _variables(e)


def _blas_facts(e: Environment, *keys: str) -> str | None:
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


def expand_names(names: Iterable[str], known: Collection[str]) -> set[str]:
    """Labels and facts that some names stand for.

    A label brings those that are its details (``optimizer`` has ``optimizer.lr``) or say the same in other words.

    Args:
        names: Of labels, facts, or groups of facts.
        known: All labels and facts.

    Example:
        >>> sorted(expand_names(["framework"], ["framework", "system", "version", "option.threads", "torch", "case"]))
        ['framework', 'system', 'torch', 'version']
        >>> sorted(expand_names(["clock"], ["smt", "host", "governor"]))
        ['governor', 'smt']
    """
    labels: set[str] = set()
    for name in names:
        labels |= {name, *_names_behind(name, known)} & {*known}
    return labels


def _names_behind(name: str, labels: Collection[str]) -> set[str]:
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


ONCE_A_START = ("setup", "first call", "peak memory")
"""Figures of which a start has one value: a single launch cannot test them, which is no fault of it."""


_FEWEST_TIMES = 6
"""So many different times do not come a second time by chance."""


def measurement_identity(result: Result) -> str:
    """What two results share only if one is a copy of the other: the digest of their samples.

    The moment of the run is in it where there are too few times to tell, since scores, sizes and failures repeat.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> from deep_bench.results import Figure
        >>> def run(file, *times):
        ...     time = Figure("forward", "s", "lower", ((np.array(times),),))
        ...     return Result("network", Path(file), datetime.now(), {}, {"forward": time})
        >>> measurement_identity(run("a.json", *range(9))) == measurement_identity(run("b.json", *range(9)))
        True
        >>> measurement_identity(run("a.json", 1, 2)) == measurement_identity(run("b.json", 1, 2))
        False
    """
    digest, times = sha256(), 0
    for name, figure in sorted(result.figures.items()):
        groups = [group for launch in figure.launches for group in launch]
        samples = np.concatenate([np.empty(0), *groups])
        digest.update(f"{name}\0{[len(group) for group in groups]}\0".encode() + samples.tobytes())
        if differs_by_start(figure.unit):
            times = max(times, len(np.unique(samples)))
    if times < _FEWEST_TIMES:
        digest.update(str(result.created).encode())
    return digest.hexdigest()


def distinct_measurements(results: Sequence[Result]) -> dict[str, Result]:
    """The first result of each measurement, by its identity."""
    by_identity: dict[str, Result] = {}
    for result in results:
        by_identity.setdefault(measurement_identity(result), result)
    return by_identity


Key = tuple[tuple[str, str], ...]
SIDES = ("before", "after")
RECORD = "record"
"""The factor where nothing but the file tells the two sides apart."""


@dataclass(frozen=True)
class Pair:
    """Two results of the same thing.

    Args:
        labels: What they share.
        before: The one.
        after: The other.
        records: How many records each was made of.
        copies: The files that say again what another one of their side says, and count for nothing.
        shared: The files of the later side whose measurement is one of the earlier side.
    """

    labels: Mapping[str, str]
    before: Result
    after: Result
    records: tuple[int, int]
    copies: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()

    @property
    def apart(self) -> bool:
        """Whether they were measured one after the other, not by turns within one run."""
        return self.before.file != self.after.file or self.records != (1, 1)


@dataclass(frozen=True)
class Pairing:
    """All pairs, what is left, and what differs.

    Args:
        pairs: In the order of the first side.
        left: The results of each side that have no counterpart.
        factor: What is compared: the label or fact that tells the sides apart.
        values: The factor's values on each side.
        across: What else differs and was allowed to, with an example of both values.
        asked: Whether the factor was named; else it was found.
        further: How many pairs have other values of the factor than these.
    """

    pairs: tuple[Pair, ...]
    left: tuple[tuple[Result, ...], tuple[Result, ...]]
    factor: str
    values: tuple[str, str]
    across: Mapping[str, tuple[str, str]]
    asked: bool = False
    further: int = 0


def pair(before: Sequence[Result], after: Sequence[Result], factor: str | None, allow: Collection[str]) -> Pairing:
    """Pair the results of two sides by all their labels but those of the factor and those that may differ.

    Several results of one side that no label tells apart are taken together: each is a launch of its own, and counts once
    however often it was copied.

    Args:
        before: One side.
        after: The other.
        factor: The label, fact or group of facts that tells the sides apart; ``None`` to find it.
        allow: Further ones that may differ.

    Raises:
        InvalidArgument: A side is empty.
        UnknownName: No result has a label or fact of such a name.
        Incomparable: More differs than the factor, or results of one side differ in it.
    """
    for name, side in zip(SIDES, (before, after), strict=True):
        if not side:
            raise InvalidArgument(f"no results on the side {name!r}", "at least one", "name a record or a folder of records")
    names = _known_names([*before, *after])
    for name in (*allow, *([factor] if factor else ())):
        if name not in names and name not in GROUPS and name != RECORD:
            raise UnknownName("label or fact", name, {*names, *GROUPS})
    allowed = expand_names(allow, names)
    free = allowed | expand_names([factor] if factor else [], names)
    sides, explicit = [_group_by_labels(side, free) for side in (before, after)], factor is not None
    if not sides[0].keys() & sides[1].keys() and factor is None:
        factor = _only_factor(_distinguishing_labels(before, after, allowed), names)
        free = allowed | expand_names([factor], names)
        sides = [_group_by_labels(side, free) for side in (before, after)]
    return replace(_check_factor(sides, factor, free, allowed, names), asked=explicit)


def _known_names(results: Iterable[Result]) -> set[str]:
    return {name for result in results for name in (*result.labels, *facts_of(result))} - (IGNORED - {"host"})


def _group_by_labels(results: Sequence[Result], free: Collection[str]) -> dict[Key, list[Result]]:
    """The results of one side by the labels that count."""
    groups: dict[Key, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.created):
        key = tuple(sorted((k, v) for k, v in result.labels.items() if k not in free and k not in IGNORED))
        groups.setdefault(key, []).append(result)
    return groups


def _distinguishing_labels(
    before: Sequence[Result], after: Sequence[Result], allowed: Collection[str]
) -> dict[str, tuple[str, str]]:
    """The labels whose values on one side are all others than on the other side."""
    names = dict.fromkeys(name for result in (*before, *after) for name in result.labels)
    differences = {}
    for name in names:
        values = [dict.fromkeys(result.labels.get(name, "—") for result in side) for side in (before, after)]
        if name not in IGNORED and name not in allowed and not values[0].keys() & values[1].keys():
            differences[name] = (", ".join(values[0]), ", ".join(values[1]))
    return differences


def _only_factor(differences: Mapping[str, tuple[str, str]], names: Collection[str]) -> str:
    """The one name that accounts for all that differs.

    Raises:
        Incomparable: There is none.
    """
    if not differences:
        raise Incomparable("no result of one side has the labels of one of the other", {}, "compare results of one thing")
    candidates = sorted(differences, key=lambda name: (name == "system", name))  # a system's label repeats all its options
    for name in candidates:
        if differences.keys() <= expand_names([name], names) and (name != "system" or len(differences) == 1):
            return name
    first, *remaining = differences
    options = f"{shlex.quote(first)} {_option_labels(remaining)}"
    advice = f"say what is compared, and what may differ beside it: --factor {options}".rstrip()
    raise Incomparable("the two sides differ in more than one factor", differences, advice)


def _check_factor(
    sides: Sequence[Mapping[Key, list[Result]]],
    factor: str | None,
    free: Collection[str],
    allowed: Collection[str],
    names: Collection[str],
) -> Pairing:
    """The pairs, if nothing differs between the results of one but what may."""
    pairs, unpaired = _make_pairs(sides, allowed)
    differences = [_differences(result_pair.before, result_pair.after) for result_pair in pairs]
    by_name: dict[str, tuple[str, str]] = {}
    for values in differences:
        by_name = {**values, **by_name}
    beyond = {name: values for name, values in by_name.items() if name not in free}
    if not pairs:
        both = [[result for group in side.values() for result in group] for side in sides]
        telling = _distinguishing_labels(both[0], both[1], free)
        raise Incomparable("no result of one side has the labels of one of the other", telling, _advice_beside(telling))
    if factor is None:
        factor = _only_factor(beyond, names) if beyond else RECORD
    elif beyond:
        raise Incomparable(f"the two sides differ in more than {factor!r}", beyond, _advice_beside(beyond))
    named = dict.fromkeys(values[factor] for values in differences if factor in values)
    if not named:  # the file of each side; of several, how many there are, and the folder that holds them
        both_names = []
        for side in sides:
            files = {result.file.absolute() for group in side.values() for result in group}
            folder = Path(commonpath(files)).name or "/"
            both_names.append(f"{len(files)} records of {folder}" if len(files) > 1 else files.pop().stem)
        named = {(both_names[0], both_names[1]): None}
    first, *remaining = named
    factor_names = expand_names([factor], names).difference(allowed)
    across = {name: both for name, both in by_name.items() if name not in factor_names}
    return Pairing(pairs, unpaired, factor, first, across, further=len(remaining))


def _make_pairs(
    sides: Sequence[Mapping[Key, list[Result]]], allowed: Collection[str]
) -> tuple[tuple[Pair, ...], tuple[tuple[Result, ...], tuple[Result, ...]]]:
    before, after = (
        {key: _merge_records(side, key, group, allowed) for key, group in groups.items()}
        for side, groups in zip(SIDES, sides, strict=True)
    )
    pairs = []
    for key in before:
        if key in after:
            groups = [side[key] for side in sides]
            earlier, later = unique = [distinct_measurements(group) for group in groups]
            first = {id(result) for side in unique for result in side.values()}
            copies = tuple(result.file for group in groups for result in group if id(result) not in first)
            shared = tuple(result.file for identity, result in later.items() if identity in earlier)
            pairs.append(Pair(dict(key), before[key], after[key], (len(earlier), len(later)), copies, shared))
    unpaired = (
        tuple(result for key, result in before.items() if key not in after),
        tuple(result for key, result in after.items() if key not in before),
    )
    return tuple(pairs), unpaired


def _differences(before: Result, after: Result) -> dict[str, tuple[str, str]]:
    """What differs between two results: facts, then labels."""
    first, second = (
        facts_of(result) | {name: value for name, value in result.labels.items() if name not in IGNORED}
        for result in (before, after)
    )
    return differing(first, second)


def _advice_beside(names: Collection[str]) -> str:
    return f"measure again with these alike, or say that they may differ: {_option_labels(names)}"


def _option_labels(names: Iterable[str]) -> str:
    return " ".join(f"--across {shlex.quote(name)}" for name in names)


def _merge_records(side: str, key: Key, results: Sequence[Result], allowed: Collection[str]) -> Result:
    """Several results of one thing as one, each record a launch of its own.

    Raises:
        Incomparable: They differ in what is not allowed to.
    """
    first = results[0]
    for peer in results[1:]:
        beyond = {name: values for name, values in _differences(first, peer).items() if name not in allowed}
        if beyond:
            subject = " ".join(value for _, value in key) or "one thing"
            raise Incomparable(
                f"{len(results)} results of {subject} on the side {side!r} differ among themselves",
                beyond,
                "name the records of one side only, or allow what may differ within it",
            )
    if len(results) == 1:
        return first
    measured = distinct_measurements(results).values()
    names = dict.fromkeys(name for result in measured for name in result.figures)
    figures = {
        name: _join_launches([result.figures[name] for result in measured if name in result.figures]) for name in names
    }
    verdicts = [result.verdict for result in results if result.verdict is not None]
    verdicts.sort(key=lambda v: float("inf") if v.significant_bits is None else v.significant_bits)
    return replace(
        first,
        figures=figures,
        verdict=worst(*verdicts),
        errors=tuple(error for result in results for error in result.errors),
        complete=all(result.complete for result in results),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


def _join_launches(figures: Sequence[Figure]) -> Figure:
    """The launches of all."""
    late = tuple(flag for f in figures for flag in (f.censored or (False,) * len(f.launches)))
    return replace(
        figures[0],
        launches=tuple(launch for figure in figures for launch in figure.launches),
        censored=late if any(late) else (),
        remark="; ".join(dict.fromkeys(figure.remark for figure in figures if figure.remark)),
    )


_SPEAK_FOR_THEMSELVES = ("case", "network", "system", "framework", "optimizer", "scheme", "recipe", "suite", "kind")
"""Labels whose values need no name beside them, in the order in which they are shown."""


_LISTED = 6


def names_of(pairs: Sequence[tuple[Pairing, Pair]]) -> list[str]:
    """A name for each pair: the values of the labels that differ among them; empty where there is nothing to tell apart."""
    return told_apart([labels_with_factor(pairing, pair.labels) for pairing, pair in pairs])


def labels_with_factor(pairing: Pairing, labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels that both sides share, and what the factor is on the later side."""
    return {**labels, **({pairing.factor: pairing.values[1]} if pairing.factor != RECORD else {})}


def told_apart(everything: Sequence[Mapping[str, str]], always: Collection[str] = ()) -> list[str]:
    """A name for each of some labelled things.

    Args:
        everything: The labels of each.
        always: Labels that are in the names even where they do not differ.

    Example:
        >>> told_apart([{"seed": "0", "dtype": "float32"}, {"seed": "0", "dtype": "float64"}])
        ['dtype=float32', 'dtype=float64']
    """
    labels = dict.fromkeys(label for mapping in everything for label in mapping)
    varying = [label for label in labels if label in always or len({mapping.get(label) for mapping in everything}) > 1]
    # the speaking ones first, without those that tell no more than the ones before them
    ranks = {label: rank for rank, label in enumerate(_SPEAK_FOR_THEMSELVES)}
    selected: list[str] = []
    for label in sorted(varying, key=lambda label: ranks.get(label, len(ranks))):
        groups = {tuple(mapping.get(name) for name in selected) for mapping in everything}
        finer_groups = {tuple(mapping.get(name) for name in (*selected, label)) for mapping in everything}
        if label in always or len(finer_groups) > len(groups):
            selected.append(label)
    return [" ".join(_value_text(label, mapping[label]) for label in selected if label in mapping) for mapping in everything]


def first_few(names: Sequence[str]) -> str:
    """The first few of some names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) <= _LISTED else f"{', '.join(unique[:_LISTED])} and {len(unique) - _LISTED} more"


def _value_text(label: str, value: str) -> str:
    value = short_digests(" ".join(value.split()))
    return value if label in _SPEAK_FOR_THEMSELVES else f"{label}={value}"
