"""Reading a network from a file, refusing what cannot be used with one clear message."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from deep_bench.errors import InvalidNetwork
from deep_bench.graph.network import OPSET, Network
from deep_bench.graph.node import is_standard, operator_name, outer_values, schema

DATA = Path(__file__).parent.parent / "data"
OLDEST_OPSET = 7


def load(path: str | Path) -> Network:
    """Read and check an ONNX network.

    Args:
        path: An ``.onnx`` file, with external data in its own folder if it has any; or the name of a network that ships
            with deep_bench (``"digits-cnn"``).

    Raises:
        InvalidNetwork: Not a file, not ONNX, truncated, an invalid graph, an operator or opset that the ONNX standard does
            not know, or external data that is missing or lies outside the network's folder.

    Example:
        >>> load("digits-cnn").outputs[0].name
        'logits'
    """
    file = _find(path)
    proto = _parse(file)
    _check_external_data(proto, file)
    _check_opsets(proto, file)
    try:
        onnx.checker.check_model(str(file), full_check=False)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError) as error:
        raise InvalidNetwork(
            f"{file} is not a valid ONNX graph: {_first_lines(error)}",
            advice="export it again, or repair it; onnx.checker.check_model prints the same",
        ) from error
    network = Network(ir.load(file), name=file.stem, source=file)
    _check_values(network, file)
    _check_operators(network, file)
    return network


def _find(path: str | Path) -> Path:
    embedded = DATA / f"{path}.onnx"
    file = embedded if not Path(path).exists() and embedded.is_file() else Path(path)
    if file.is_dir():
        raise InvalidNetwork(f"{file} is a folder", "an .onnx file")
    if not file.is_file():
        shipped = ", ".join(sorted(f.stem for f in DATA.glob("*.onnx")))
        raise InvalidNetwork(f"there is no file {str(path)!r}", f"an .onnx file, or a network that ships: {shipped}")
    return file


def _parse(file: Path) -> onnx.ModelProto:
    try:
        proto = onnx.load(file, load_external_data=False)
    except PermissionError as error:
        raise InvalidNetwork(f"{file} cannot be read: {error.strerror}", advice="check its permissions") from error
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise InvalidNetwork(
            f"{file} ({file.stat().st_size} bytes) is not an ONNX file, or it is truncated",
            "a serialised onnx.ModelProto",
            "compare its size and checksum with those of the original",
        ) from error
    if not proto.HasField("graph") or not proto.opset_import:
        raise InvalidNetwork(f"{file} ({file.stat().st_size} bytes) holds no ONNX graph", "a serialised onnx.ModelProto")
    return proto


def _check_external_data(proto: onnx.ModelProto, file: Path) -> None:
    folder = file.parent.resolve()
    for tensor in onnx.external_data_helper._get_all_tensors(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        data = (folder / location).resolve()
        if not data.is_relative_to(folder):
            raise InvalidNetwork(
                f"tensor {tensor.name!r} of {file} points outside the network's folder: {location!r}",
                "external data in the network's own folder or below it",
                "move the data there, and mistrust the file if it came from elsewhere",
            )
        if not data.is_file():
            raise InvalidNetwork(
                f"tensor {tensor.name!r} of {file} is in {location!r}, which is missing", f"the file {data}"
            )


def _check_opsets(proto: onnx.ModelProto, file: Path) -> None:
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and not OLDEST_OPSET <= entry.version <= OPSET:
            raise InvalidNetwork(
                f"{file} is written in opset {entry.version}",
                f"opset {OLDEST_OPSET} to {OPSET}",
                "export it for a known opset, or convert it with onnx.version_converter",
            )


def _check_values(network: Network, file: Path) -> None:
    missing = outer_values(network.graph)
    if missing:
        raise InvalidNetwork(
            f"value {missing[0].name!r} of {file} is used but is neither an input, an initializer nor a node's output",
            advice="export the network again with all its initializers",
        )


def _check_operators(network: Network, file: Path) -> None:
    functions = {(f.domain, f.name) for f in network.model.functions.values()}
    for node in network.all_nodes():
        if (node.domain, node.op_type) in functions or node.domain.startswith("com.microsoft"):
            continue
        version = network.opsets.get("" if is_standard(node) else node.domain)
        if version is None or schema(node, version) is None:
            raise InvalidNetwork(
                f"node {node.name!r} of {file} is a {operator_name(node)}, unknown in opset {version} of its domain",
                "operators of the ONNX standard, or functions that the file defines",
            )


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:400]
