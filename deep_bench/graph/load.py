"""Reading a network from a file, refusing what cannot be used with one clear message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.graph.network import OLDEST_OPSET, OPSET, Network, known_to_onnx, read_model

DATA = Path(__file__).parent.parent / "data"


_OPSETS_SINCE_IR = 3
"""Before this IR version a file stated no operator sets, and meant opset 1."""


_INFERRED_BELOW = 2**31 - 2**20

NetworkLike: TypeAlias = "str | Path | Network"
"""A network, or what `load` reads one from."""


def as_network(given: NetworkLike) -> Network:
    """A network as it is, or the one in a file or of a name; see `load`.

    Raises:
        InvalidArgument: Something else.
        InvalidNetwork: No such file, or not a usable network.

    Example:
        >>> as_network("digits-cnn").name
        'digits-cnn'
    """
    if isinstance(given, Network):
        return given
    if not isinstance(given, str | Path):
        raise InvalidArgument(
            f"a {type(given).__name__} as a network",
            "a Network, an .onnx file, or the name of a network that ships",
            "Network.from_proto takes an onnx.ModelProto, Network.from_torch a module, Network.from_keras a model",
        )
    return load(given)


def load(path: str | Path) -> Network:
    """Read and check an ONNX network.

    Args:
        path: An ``.onnx`` file, with external data in its own folder if it has any; or the name of a network that ships
            with deep_bench (``"digits-cnn"``).

    Raises:
        InvalidNetwork: Not a file, not ONNX, truncated, an invalid graph, an operator or opset that the ONNX standard does
            not know, no output, one output twice, an output of another element type than declared, or external data that
            is missing or lies outside the network's folder.

    Example:
        >>> load("digits-cnn").outputs[0].name
        'logits'
    """
    file = _find(path)
    proto = _parse(file)
    _check_external_data(proto, file)
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and not OLDEST_OPSET <= entry.version <= OPSET:
            raise InvalidNetwork(
                f"{file} is written in opset {entry.version}",
                f"opset {OLDEST_OPSET} to {OPSET}",
                "export it for a known opset, or convert it with onnx.version_converter",
            )
    with known_to_onnx():
        _check_operators(proto, file)
    _check_values(proto, file)
    completed = _complete_shapes(proto, file)
    try:
        with known_to_onnx():
            onnx.checker.check_model(proto if completed or not _has_external(proto) else _text(file), full_check=False)
            if proto.ByteSize() < _INFERRED_BELOW:
                # the types of the outputs are inferred without those that are declared: inference would believe them
                declared = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in proto.graph.output]
                for value in proto.graph.output:
                    value.ClearField("type")
                inferred = onnx.shape_inference.infer_shapes(proto, check_type=True).graph.output
                for value, declared_value, inferred_value in zip(proto.graph.output, declared, inferred, strict=True):
                    value.CopyFrom(declared_value)
                    says, gives = _type_name(declared_value.type), _type_name(inferred_value.type)
                    if says and gives and says != gives:
                        raise InvalidNetwork(
                            f"output {value.name!r} of {file} is declared as {says}, and the graph gives {gives}",
                            f"an output declared as {gives}",
                            "export the network again, or correct the declaration",
                        )
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError) as error:
        raise InvalidNetwork(
            f"{file} is not a valid ONNX graph: {_first_lines(error)}",
            advice="export it again, or repair it; onnx.checker.check_model prints the same",
        ) from error
    model = read_model(proto, str(file))
    ir.external_data.set_base_dir(model.graph, file.parent)
    return Network(model, name=file.stem, source=file)


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
        proto = onnx.load(file, format="protobuf", load_external_data=False)  # whatever its name ends in
    except OSError as error:
        advice = "check its permissions" if isinstance(error, PermissionError) else "a file on a disk that works"
        raise InvalidNetwork(f"{file} cannot be read: {error.strerror}", advice=advice) from error
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise InvalidNetwork(
            f"{file} ({file.stat().st_size} bytes) is not an ONNX file, or it is truncated",
            "a serialised onnx.ModelProto",
            "compare its size and checksum with those of the original",
        ) from error
    if not proto.opset_import and 0 < proto.ir_version < _OPSETS_SINCE_IR:
        proto.ir_version = _OPSETS_SINCE_IR
        proto.opset_import.add(domain="", version=1)
    if not proto.HasField("graph") or not proto.opset_import:
        raise InvalidNetwork(f"{file} ({file.stat().st_size} bytes) holds no ONNX graph", "a serialised onnx.ModelProto")
    return proto


def _check_external_data(proto: onnx.ModelProto, file: Path) -> None:
    folder = file.parent.resolve()
    for tensor in _external(proto):
        fields = {entry.key: entry.value for entry in tensor.external_data}
        location = fields.get("location", "")
        data = (folder / location).resolve()
        if not data.is_relative_to(folder):
            raise InvalidNetwork(
                f"tensor {tensor.name!r} of {file} points outside the network's folder: {location!r}",
                "external data in the network's own folder or below it",
                "move the data there, and mistrust the file if it came from elsewhere",
            )
        if not data.is_file():
            raise InvalidNetwork(
                f"tensor {tensor.name!r} of {file} is in {location!r}, which is missing",
                f"the file {data}",
                "copy it there: it belongs to the network",
            )
        extent = [fields.get(key) or "0" for key in ("offset", "length")]
        if not all(number.isdecimal() for number in extent):
            came = f"tensor {tensor.name!r} of {file} states the offset {extent[0]!r} and the length {extent[1]!r}"
            raise InvalidNetwork(came, "whole numbers of bytes", "export the network again")
        end = sum(map(int, extent))
        if data.stat().st_size < end:
            raise InvalidNetwork(
                f"tensor {tensor.name!r} of {file} ends at byte {end} of {location!r}, which has {data.stat().st_size}",
                "the whole file",
                "compare its size and checksum with those of the original",
            )


def _external(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors whose contents are in other files."""
    tensors = onnx.external_data_helper._get_all_tensors(proto)
    return (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL)


def _has_external(proto: onnx.ModelProto) -> bool:
    return next(_external(proto), None) is not None


def _text(file: Path) -> str:
    """A name as onnx's checker takes it, which finds external data by it."""
    try:
        str(file).encode()
    except UnicodeEncodeError as error:
        raise InvalidNetwork(
            f"the name {str(file)!a} is not readable in this locale, and the network's tensors are in files beside it",
            "a name that Python can decode",
            "set PYTHONUTF8=1, or rename the file",
        ) from error
    return str(file)


def _check_operators(proto: onnx.ModelProto, file: Path) -> None:
    functions = {(f.domain, f.name) for f in proto.functions}
    bodies = [(proto.graph.node, proto.opset_import), *((f.node, f.opset_import) for f in proto.functions)]
    for nodes, opset_import in bodies:
        opsets = {_domain(entry.domain): entry.version for entry in opset_import}
        for node in all_nodes(nodes):
            is_custom = (node.domain, node.op_type) in functions or node.domain.startswith("com.microsoft")
            version = opsets.get(_domain(node.domain))
            if not is_custom and (version is None or not onnx.defs.has(node.op_type, version, _domain(node.domain))):
                name = f"{node.domain}:{node.op_type}" if _domain(node.domain) else node.op_type
                where = (
                    "a domain whose opset the file does not state" if version is None else f"opset {version} of its domain"
                )
                raise InvalidNetwork(
                    f"node {_called(node)} of {file} is a {name}, unknown in {where}",
                    "operators of the ONNX standard, or functions that the file defines",
                    "export the network with standard operators, or include the operator as a function",
                )


def _check_values(proto: onnx.ModelProto, file: Path) -> None:
    graph = proto.graph
    value_names = (
        {""}
        | {v.name for v in graph.input}
        | {t.name for t in graph.initializer}
        | {o for n in graph.node for o in n.output}
    )
    value_names |= {t.values.name for t in graph.sparse_initializer}
    for node in graph.node:
        for name in node.input:
            if name not in value_names:
                raise InvalidNetwork(
                    f"node {_called(node)} of {file} uses {name!r}, which no input, initializer or node provides",
                    "an initializer of that name",
                    "export the network again with all its initializers",
                )


def _complete_shapes(proto: onnx.ModelProto, file: Path) -> bool:
    """Give outputs without a shape, which runtimes take and onnx's checker does not, the one that inference finds.

    Returns:
        Whether there was one.

    Raises:
        InvalidNetwork: Inference finds none, or an input has none.
    """
    without = [v for v in (*proto.graph.input, *proto.graph.output) if _lacks_shape(v.type)]
    if not without:
        return False
    inferred = {v.name: v.type for v in onnx.shape_inference.infer_shapes(proto).graph.output}
    for value in without:
        inferred_type = inferred.get(value.name)
        if inferred_type is None or _lacks_shape(inferred_type):
            raise InvalidNetwork(
                f"{value.name!r} of {file} is declared without a shape, and inference finds none",
                "inputs and outputs with a shape; open dimensions may have names",
                "declare it: onnx.helper.make_tensor_value_info(name, type, shape)",
            )
        value.type.tensor_type.shape.CopyFrom(inferred_type.tensor_type.shape)
    return True


def _lacks_shape(kind: onnx.TypeProto) -> bool:
    return kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape")


def _type_name(kind: onnx.TypeProto) -> str:
    """Container and element type in words, ``""`` if it is unknown."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        code, element_types = getattr(kind, which).elem_type, onnx.TensorProto.DataType
        element = (element_types.Name(code).lower() if code in element_types.values() else f"type {code}") if code else ""
        return f"sparse {element}" if element and which == "sparse_tensor_type" else element
    if which in ("sequence_type", "optional_type"):
        element = _type_name(getattr(kind, which).elem_type)
        return f"{which.removesuffix('_type')} of {element}" if element else ""
    return ""


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of all subgraphs in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from all_nodes(graph.node)


def _called(node: onnx.NodeProto) -> str:
    """A node's name, or what it gives if it has none."""
    return repr(node.name) if node.name else f"that gives {', '.join(map(repr, node.output))}"


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:400]
