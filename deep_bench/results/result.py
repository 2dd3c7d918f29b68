"""Labels: what tells a result from others, as text."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from deep_bench.measure.compare import Figure
from deep_bench.measure.environment import Environment
from deep_bench.measure.metrics import Direction, MetricRecord
from deep_bench.measure.statistics import CPU_TIME, select
from deep_bench.measure.timing import Block
from deep_bench.records.model import ErrorRecord, VerdictRecord

LABEL_NAMES = frozenset(
    [
        *("batch", "bytes", "case", "data", "device", "dtype", "framework", "host", "kind", "launches", "network"),
        *("nodes", "operator", "optimizer", "ranks", "recipe", "scheme", "seed", "suite", "system", "version"),
    ]
)
"""Labels that readers of records give. A factor of such a name becomes ``factor.NAME``: a recipe may use other words."""


_PLACES = frozenset({"host", "hostname", "node", "rank", "size"})
"""What a communicator says that is of one rank, or in other labels."""


_LONGEST = 10_000
_ADDRESS = re.compile(r"<(?:bound method|function|class) '?([\w.]+)'?[^<>]*>")


def text_of(value: Any) -> str:
    """A value as a label has it.

    Example:
        >>> text_of(True), text_of(8), text_of(0.5), text_of(["a", 1]), text_of({"n": 1})
        ('true', '8', '0.5', 'a,1', '{"n": 1}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value))
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping) else str(value)


def labels(**values: Any) -> dict[str, str]:
    """Those that have a value.

    Example:
        >>> labels(network="lenet", ranks=4, recipe=None, dtype="")
        {'network': 'lenet', 'ranks': '4'}
    """
    return {name: text for name, value in values.items() if value is not None and (text := text_of(value))}


def prefix_labels(prefix: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Settings as labels of their own.

    Example:
        >>> prefix_labels("option", {"threads": 1})
        {'option.threads': '1'}
    """
    return labels(**{f"{prefix}.{name}": value for name, value in values.items()})


def system_labels(system: str) -> dict[str, str]:
    """A framework with its options, as the command line has it.

    Example:
        >>> system_labels("torch:threads=1")
        {'system': 'torch:threads=1', 'framework': 'torch', 'option.threads': '1'}
        >>> system_labels("")
        {}
    """
    framework, _, options = system.partition(":")
    pairs = [part.partition("=")[::2] for part in options.split(",") if "=" in part]
    return labels(system=system or None, framework=framework or None) | prefix_labels("option", dict(pairs))


def framework_labels(facts: Mapping[str, Any]) -> dict[str, str]:
    """What a framework says of itself: its version, its device, and how it was built and set.

    Args:
        facts: Name to text; what is no text is none of it.

    Example:
        >>> framework_labels({"version": "2.9", "device": "cpu", "instruction set": "AVX512", "ranks": []})
        {'version': '2.9', 'device': 'cpu', 'framework.instruction_set': 'AVX512'}
    """
    return _with_prefixed("framework", facts, ("version", "device"))


def layout_labels(hosts: Sequence[Any], communicator: Mapping[str, Any]) -> dict[str, str]:
    """How ranks lie on nodes, and what the communicator says of itself.

    Args:
        hosts: Of each rank.
        communicator: Name to text.

    Example:
        >>> layout_labels(["a", "a", "b", "b"], {"communicator": "mpi", "library": "Open MPI 5.0", "host": "a"})
        {'nodes': '2', 'ranks.per_node': '2', 'communicator': 'mpi', 'communicator.library': 'Open MPI 5.0'}
        >>> layout_labels(["a", "a", "b"], {})
        {'nodes': '2', 'ranks.per_node': '2,1'}
    """
    counts = list(Counter(map(str, hosts)).values())
    each = list(dict.fromkeys(counts))
    facts = {name: value for name, value in communicator.items() if name not in _PLACES}
    return labels(nodes=len(counts) or None, **{"ranks.per_node": each if len(each) == 1 else counts}) | _with_prefixed(
        "communicator", facts, ("communicator",)
    )


def _with_prefixed(prefix: str, facts: Mapping[str, Any], plain: Sequence[str]) -> dict[str, str]:
    """Some facts under their own names, all others with a prefix."""
    texts = {name: value for name, value in facts.items() if isinstance(value, str)}
    extra = {name.replace(" ", "_"): value for name, value in texts.items() if name not in plain}
    return labels(**{name: texts.get(name) for name in plain}) | prefix_labels(prefix, extra)


def cell_labels(options: Mapping[str, Any]) -> dict[str, str]:
    """The recipe, the cell and its factors, of a record that a recipe's matrix made.

    Args:
        options: Of the record's recipe.

    Example:
        >>> cell_labels({"cell": {"recipe": "sizes", "id": "0f", "factors": {"width": 8, "seed": 1}}})
        {'recipe': 'sizes', 'cell': '0f', 'width': '8', 'factor.seed': '1'}
    """
    cell = options.get("cell")
    if not isinstance(cell, Mapping):
        return {}
    factors = cell.get("factors")
    by_label = labels(recipe=cell.get("recipe"), cell=cell.get("id"))
    for name, value in factors.items() if isinstance(factors, Mapping) else ():
        by_label |= labels(**{f"factor.{name}" if name in LABEL_NAMES or name in by_label else str(name): value})
    return by_label


def optimizer_labels(text: str, distributed: bool) -> dict[str, str]:
    """An optimizer as a record has it, its settings each a label.

    Args:
        text: What its ``repr`` gave; memory addresses in it, which differ from run to run, are left out.
        distributed: Whether the outermost keeps ranks together.

    Example:
        >>> optimizer_labels("AllReduce(inner=Adam(lr=0.1), bucket=64)", True)
        {'scheme': 'AllReduce', 'scheme.bucket': '64', 'optimizer': 'Adam', 'optimizer.lr': '0.1'}
        >>> optimizer_labels("not an expression", False)
        {'optimizer': 'not an expression'}
    """
    plain = _ADDRESS.sub(r"\1", text)
    call = _parse_call(plain)
    if call is None:
        return labels(optimizer=plain)
    by_label: dict[str, str] = {}
    prefix = "scheme" if distributed else "optimizer"
    while True:
        value = next((k.value for k in call.keywords if k.arg == "inner"), None)
        name, inner = ast.unparse(call.func), (value if isinstance(value, ast.Call) else None)
        settings = {k.arg: _value_text(k.value) for k in call.keywords if k.arg and not (k.arg == "inner" and inner)}
        if inner is None or prefix == "scheme":
            by_label |= labels(**{prefix: name}) | prefix_labels(prefix, settings)
        else:
            by_label |= prefix_labels(f"{prefix}.{name}", settings)
        if inner is None:
            return by_label
        call, prefix = inner, "optimizer"


def _parse_call(text: str) -> ast.Call | None:
    """The call that a ``repr`` looks like, which is read and never made."""
    if len(text) > _LONGEST:
        return None
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return node if isinstance(node, ast.Call) else None


def _value_text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


Kind: TypeAlias = Literal["network", "operators", "communication", "training", "scaling", "mlperf"]


@dataclass(frozen=True)
class Result:
    """What one system gave on one problem.

    Args:
        kind: Of the run.
        file: The record's file.
        created: When the run began.
        labels: All that tells it from others: ``framework``, ``system``, ``network``, ``case``, ``optimizer``, ``scheme``,
            ``ranks``, ``seed``, …; and each factor of the recipe that it is a cell of.
        figures: Name to metric.
        verdict: Whether it was right; ``None`` where nothing was checked.
        errors: What failed.
        environment: Where it ran.
        complete: Whether the run came to its end.
        notes: What a reader should know.
    """

    kind: Kind
    file: Path
    created: datetime
    labels: Mapping[str, str]
    figures: Mapping[str, Figure]
    verdict: VerdictRecord | None = None
    errors: tuple[ErrorRecord, ...] = ()
    environment: Environment | None = None
    complete: bool = True
    notes: tuple[str, ...] = field(default=())

    @property
    def outcome(self) -> str:
        """*failed*; else the verdict's word; else *unchecked*."""
        if self.errors:
            return "failed"
        return self.verdict.verdict if self.verdict is not None else "unchecked"

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing was found wrong."""
        return self.outcome in ("right", "no information", "cannot tell", "unchecked")

    @property
    def main(self) -> Figure | None:
        """The figure that a table shows where it has room for one; ``None`` where there is none."""
        return next(iter(self.figures.values()), None)

    @property
    def name(self) -> str:
        """System and problem, as a table shows them."""
        words = [self.labels.get(key, "") for key in ("system", "case", "network", "recipe")]
        return " on ".join(dict.fromkeys(word for word in words if word))


_ORDER = ("wrong", "reduced precision", "cannot tell", "no information", "right")


def worst(*verdicts: VerdictRecord | None) -> VerdictRecord | None:
    """The worst of several verdicts, the first of equals; ``None`` where nothing was checked.

    Example:
        >>> right, wrong = (VerdictRecord(verdict=word, reason="") for word in ("right", "wrong"))
        >>> worst(right, None, wrong).verdict
        'wrong'
    """
    candidates = [verdict for verdict in verdicts if verdict is not None]
    rank = {word: number for number, word in enumerate(_ORDER)}
    return min(candidates, key=lambda verdict: rank.get(verdict.verdict, -1), default=None)


NS_IN_A_SECOND = 1e9
"""In nanoseconds."""


def time_figure(name: str, launches: Iterable[Sequence[Block]]) -> Figure | None:
    """The time of a call in seconds; ``None`` without samples.

    Its samples are those that a median is taken of (`deep_bench.measure.statistics.select`); where these are not all, the
    remark tells it, and the others are aside.

    Example:
        >>> block = Block(0, 2, np.array([4, 6, 8]), np.zeros(3, bool))
        >>> time_figure("forward", [[block]]).median
        3e-09
    """
    groups, remarks, aside, wall, by_cpu = [], [], [], [], False
    for blocks in launches:
        filled = [block for block in blocks if len(block.ns)]
        if filled:
            chosen, selection = select(filled)
            groups.append(tuple(group / NS_IN_A_SECOND for group in chosen))
            wall.append(tuple(block.calls_ns / NS_IN_A_SECOND for block in filled))
            by_cpu |= selection == CPU_TIME
            if selection != "all samples":
                count, every = sum(map(len, chosen)), sum(len(block.ns) for block in filled)
                remarks.append(f"{selection}: {count} of {every}")
                aside += [block.calls_ns[block.preempted] / NS_IN_A_SECOND for block in filled if block.preempted.any()]
            if max(block.batch for block in filled) > 1:
                remarks.append(f"a sample is the mean of up to {max(block.batch for block in filled)} calls")
    remark = "; ".join(dict.fromkeys(remarks))
    if not groups:
        return None
    return Figure(name, "s", "lower", tuple(groups), remark, aside=tuple(aside), wall=tuple(wall) if by_cpu else ())


def single_figure(name: str, unit: str, direction: Direction, value: float | None, remark: str = "") -> Figure | None:
    """A figure of one value; ``None`` where there is none.

    Example:
        >>> single_figure("peak memory", "B", "lower", 4096).median
        4096.0
    """
    return None if value is None else Figure(name, unit, direction, ((np.array([value], float),),), remark)


def seconds_figure(name: str, ns: float | None) -> Figure | None:
    """A time that was taken once, in nanoseconds."""
    return single_figure(name, "s", "lower", None if ns is None else ns / NS_IN_A_SECOND)


def metric_figures(metrics: Iterable[Sequence[MetricRecord]]) -> list[Figure]:
    """What metrics found.

    Args:
        metrics: Those of each launch or run.
    """
    values: dict[str, list[tuple[np.ndarray, ...]]] = {}
    first: dict[str, MetricRecord] = {}
    for records in metrics:
        for metric in records:
            if metric.values:
                scale = NS_IN_A_SECOND if metric.unit == "ns" else 1.0
                first.setdefault(metric.name, metric)
                values.setdefault(metric.name, []).append((np.array(metric.values, float) / scale,))
    units = {"ns": "s"}
    return [Figure(name, units.get(m.unit, m.unit), m.direction, tuple(values[name]), m.remark) for name, m in first.items()]


def figures_by_name(figures: Iterable[Figure | None]) -> dict[str, Figure]:
    """Those that there are, by name; the first of a name counts."""
    by_name: dict[str, Figure] = {}
    for figure in figures:
        if figure is not None:
            by_name.setdefault(figure.name, figure)
    return by_name


_FOLLOWING = frozenset({"kind", "cell", "launches"})
"""Labels that other labels or columns say as well."""


def group_by(results: Sequence[Result], named: Callable[[Result], object]) -> list[list[Result]]:
    """The results of each name, in the order in which names first come."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        groups.setdefault(named(result), []).append(result)
    return list(groups.values())


def distinguishing_labels(groups: Sequence[Sequence[Result]]) -> list[str]:
    """The labels that vary within any of some groups; what names something goes before its settings.

    A factor of a recipe that says what another label says, such as ``factor.batch`` beside ``size.batch``, is left out.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> about = [{"system": "a", "factor.batch": size, "size.batch": size, "seed": "1"} for size in "12"]
        >>> day, file = datetime(2026, 1, 1), Path("r.json")
        >>> distinguishing_labels([[Result("network", file, day, labels, {}) for labels in about]])
        ['size.batch']
    """
    every = [result for group in groups for result in group]
    names = dict.fromkeys(name for result in every for name in result.labels if name not in _FOLLOWING)
    varying = [name for name in names if any(len({result.labels.get(name) for result in group}) > 1 for group in groups)]
    if "system" in varying:  # it has the framework and the options in it
        varying = [name for name in varying if name != "framework" and not name.startswith(("option.", "framework."))]
    selected: list[str] = []
    for name in sorted(varying, key=lambda name: ("." in name, name.startswith("factor."))):
        if not any(_repeats(label, name, every) for label in selected):
            selected.append(name)
    return selected


def _repeats(label: str, name: str, results: Sequence[Result]) -> bool:
    """Whether a label has all that another of the same last word has."""
    if label.rpartition(".")[2] != name.rpartition(".")[2]:
        return False
    return all(result.labels.get(name) in (None, result.labels.get(label)) for result in results)
