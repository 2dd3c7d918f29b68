"""Labels: what tells a result from others, as text."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

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
