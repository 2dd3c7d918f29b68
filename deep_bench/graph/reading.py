"""From a ``ModelProto`` to what ``onnx_ir`` holds."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidNetwork


def read_model(proto: onnx.ModelProto, name: str) -> ir.Model:
    """A ``ModelProto`` as ``onnx_ir`` holds it.

    Raises:
        InvalidNetwork: It has values that ``onnx_ir`` does not know (maps), no output, or one output twice.
    """
    _check_outputs(proto, name)
    try:
        return ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise InvalidNetwork(
            f"{name} cannot be read: {cause}",
            "values that are tensors, sequences or optionals",
            "a classifier that returns maps (ZipMap) can usually be exported without them",
        ) from error


def _check_outputs(proto: onnx.ModelProto, name: str) -> None:
    """Results are returned by name, so there must be some, under different names."""
    names = [value.name for value in proto.graph.output]
    if not names:
        raise InvalidNetwork(f"{name} has no output", "at least one", "export it again with the values that it is to return")
    for twice in (n for i, n in enumerate(names) if n in names[:i]):
        raise InvalidNetwork(
            f"{name} lists the output {twice!r} more than once",
            "outputs of different names: results are returned by name",
            "export it again with an Identity for each further output",
        )
