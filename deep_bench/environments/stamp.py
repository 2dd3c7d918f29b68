"""Networks stamped with the oldest versions in which they say the same: older frameworks refuse newer stamps unread."""

from __future__ import annotations

from typing import Any

import onnx

from deep_bench.graph.load import all_nodes


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
    """Give the networks that a system is asked to run their oldest stamp; see `deep_bench.measure.workers.Translate`."""
    return (oldest_stamp(asked[0]), *asked[1:]) if method in ("run", "run_precisely") else asked


_OLDEST_IR = 4
"""From here on initializers need not be inputs."""
