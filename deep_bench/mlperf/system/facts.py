"""What a user states of a system: a small YAML file of fields."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.mlperf.system.fields import FIELDS, Kind
from deep_bench.yaml_text import parsed

_LARGEST_BYTES = 2**16
_LONGEST = 2000

STATUSES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "on-premise": ("Available on-premise", "available"),
        "cloud": ("Available cloud", "available"),
        "preview": ("Preview", "preview"),
        "rdi": ("Research, Development, or Internal (RDI)", "rdi"),
    }
)
"""Name of each status to how descriptions of training and of inference write it."""

_DIVISIONS = ("open", "closed")


def load_facts(path: str | Path) -> dict[str, str]:
    """Read what a user states of a system.

    Args:
        path: A YAML file of fields of `FIELDS`, each a text or a number.

    Raises:
        InvalidArgument: It cannot be read, is too large, or has what `checked` refuses.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InvalidArgument(f"{path} has {path.stat().st_size} bytes", f"at most {_LARGEST_BYTES}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the facts {path} cannot be read: {reason}", "a YAML file in UTF-8") from error
    content = parsed(text, f"the facts {path}")
    if not isinstance(content, Mapping):
        raise InvalidArgument(f"the facts {path} are no mapping", "lines such as submitter: My Group")
    return checked(content)


def checked(facts: Mapping[Any, Any]) -> dict[str, str]:
    """What a user states, as texts.

    Args:
        facts: Name of a field to its value.

    Raises:
        InvalidArgument: A field that there is not, the nearest one named; or a value that it does not take.

    Example:
        >>> checked({"submitter": "A lab", "number_of_nodes": 2})
        {'submitter': 'A lab', 'number_of_nodes': '2'}
    """
    texts = {}
    for name, value in facts.items():
        if name not in FIELDS:
            near = difflib.get_close_matches(str(name), FIELDS, n=1)
            raise InvalidArgument(
                f"a fact {str(name)[:100]!r}", f"one of {', '.join(FIELDS)}", f"did you mean {near[0]!r}?" if near else ""
            )
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidArgument(f"{name}: {type(value).__name__}", "a text or a number")
        if len(str(value)) > _LONGEST:
            raise InvalidArgument(f"{name} of {len(str(value))} characters", f"at most {_LONGEST}")
        texts[str(name)] = str(value)
    _check("division", texts, _DIVISIONS)
    _check("status", texts, STATUSES)
    for name in ("number_of_nodes", "accelerators_per_node"):
        least = int(name == "number_of_nodes")
        if name in texts and not (texts[name].isdecimal() and int(texts[name]) >= least):
            raise InvalidArgument(f"{name}: {texts[name]}", f"a whole number of at least {least}")
    return texts


def status_of(status: str, kind: Kind) -> str:
    """A status as a description writes it.

    Example:
        >>> status_of("on-premise", "training"), status_of("rdi", "inference")
        ('Available on-premise', 'rdi')
    """
    return STATUSES[status][kind == "inference"]


def _check(name: str, facts: Mapping[str, str], candidates: Any) -> None:
    if name in facts and facts[name] not in candidates:
        near = difflib.get_close_matches(facts[name], candidates, n=1)
        raise InvalidArgument(
            f"{name}: {facts[name]}", f"one of {', '.join(candidates)}", f"did you mean {near[0]!r}?" if near else ""
        )
