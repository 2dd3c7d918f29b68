"""Frameworks whose dependencies conflict with deep_bench's: one file of theirs runs beside NumPy, all else happens here.

Their networks are stamped with the oldest versions in which they say the same: older frameworks refuse newer stamps unread.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.graph.load import all_nodes

SYSTEM = "deep_bench.workers.lean_system:LeanSystem"


@dataclass(frozen=True)
class Lean:
    """A framework that runs in an environment without deep_bench.

    Args:
        name: In `deep_bench.variant.lean_frameworks`.
        program: The file with its adapter, which needs the framework, NumPy and the standard library of that environment
            only; see `deep_bench.workers.lean_system` for what it must offer.
        attribute: The adapter's class in it.
        rewrite: What makes of a network one that the framework reads; raises `UnsupportedOperator` where it cannot.
        options: The names of its options.
        install: What `pip install` is told to make its environment.
    """

    name: str
    program: Path
    attribute: str
    rewrite: Callable[[Network], bytes]
    options: tuple[str, ...] = ()
    install: str = ""

    def arguments(self, options: Mapping[str, str]) -> dict[str, Any]:
        """What the system in the worker is made from, but for network and inputs.

        Raises:
            InvalidArgument: An option that it does not have.
        """
        for name in options:
            if name not in self.options:
                near = difflib.get_close_matches(name, self.options, n=1)
                raise InvalidArgument(
                    f"{self.name} has no option {name!r}",
                    f"one of {', '.join(self.options) or '(it has none)'}",
                    f"did you mean {near[0]!r}?" if near else "",
                )
        return {
            "program": str(self.program),
            "attribute": self.attribute,
            "options": dict(options),
            "install": self.install,
        }


def oldest_stamp(serialized: bytes) -> bytes:
    """The same network under the lowest opset and IR version that leave every operator the very definition it has.

    Nothing but the stamps changes. Networks with functions of their own stay as they are.

    Args:
        serialized: A ``ModelProto``.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> network = Case.of("Gemm", (2, 3), (3, 4)).network()
        >>> older = onnx.load_from_string(oldest_stamp(network.to_proto().SerializeToString()))
        >>> network.opset > 13, older.opset_import[0].version, older.ir_version
        (True, 13, 7)
    """
    model = onnx.load_from_string(serialized)
    opset = next((entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)
    if opset is None or model.functions:
        return serialized
    operators = [node.op_type for node in all_nodes(model.graph.node) if node.domain in ("", "ai.onnx")]
    if not all(onnx.defs.has(operator, opset.version, "") for operator in operators):
        return serialized
    opset.version = max(
        (onnx.defs.get_schema(operator, opset.version, "").since_version for operator in operators), default=1
    )
    entries = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    model.ir_version = min(model.ir_version, max(onnx.helper.find_min_ir_version_for(entries), _OLDEST_IR))
    return bytes(model.SerializeToString())


def stamped_run(method: str, asked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give the networks that a system is asked to run their oldest stamp; see `deep_bench.workers.process.Translate`."""
    return (oldest_stamp(asked[0]), *asked[1:]) if method == "run" else asked


_OLDEST_IR = 4
"""From here on initializers need not be inputs."""
