"""The generalised pattern as Chakra execution traces, which ASTRA-sim reads: one file for each rank, collective calls whole.

A file has messages of protocol buffers, each behind its length: ``GlobalMetadata``, then a ``Node`` for each thing that the
rank does. The types are made here of the fields that are used, with the schema's names and numbers.

Source:
    Sridharan et al., *Chakra: advancing performance benchmarking and co-design using standardized execution traces*,
    arXiv:2305.14516; MLCommons Chakra, ``schema/protobuf/et_def.proto``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from deep_bench.distributed.scaling.calls import MESSAGES, Call
from deep_bench.distributed.scaling.program import Computing, Program, whole
from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import replace

VERSION = "0.0.4"

COMPUTING, SENDING, RECEIVING, COLLECTIVE = 4, 5, 6, 7
"""Of ``NodeType``."""

TYPES = {
    "allreduce": 0, "reduce": 1, "allgather": 2, "gather": 3, "scatter": 4, "broadcast": 5, "alltoall": 6,
    "reduce_scatter": 7, "barrier": 9,
}  # fmt: skip
"""Of ``CollectiveCommType``."""

_PACKAGE = "ChakraProtoMsg"
_FIELDS: dict[str, list[tuple[str, int, str, bool]]] = {
    "BoolList": [("values", 1, "bool", True)],
    "AttributeProto": [
        ("name", 1, "string", False), ("int32_val", 7, "int32", False), ("int64_val", 9, "int64", False),
        ("uint64_val", 13, "uint64", False), ("bool_val", 27, "bool", False), ("bool_list", 28, "BoolList", False),
        ("string_val", 29, "string", False),
    ],
    "GlobalMetadata": [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)],
    "Node": [
        ("id", 1, "uint64", False), ("name", 2, "string", False), ("type", 3, "int32", False),
        ("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True), ("start_time_micros", 6, "uint64", False),
        ("duration_micros", 7, "uint64", False), ("attr", 10, "AttributeProto", True),
    ],
}  # fmt: skip
"""Message to its fields: name, number, type, whether there may be several. An enum is an int32 on the wire."""


@cache
def _types() -> dict[str, Any]:
    """Message to its class."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="deep_bench_chakra.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field, number, kind, several in fields:
            field_proto = message.field.add(name=field, number=number)
            field_proto.label = kinds.LABEL_REPEATED if several else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                field_proto.type, field_proto.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field_proto.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
            if name == "AttributeProto" and field != "name":
                field_proto.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ((name, pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS)
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in names}


def nodes(program: Program, rank: int, rows: list[int]) -> Iterator[Any]:
    """A ``Node`` for each thing that a rank does, each after the one before."""
    number = 0
    before: list[int] = []
    for part in program.calls(rank, rows):
        numbers = []
        for name, kind, micros, attributes in _of(part):
            node = _types()["Node"](id=number, name=name, type=kind, data_deps=before, duration_micros=micros)
            for key, (field, value) in attributes.items():
                attribute = node.attr.add(name=key)
                if field == "bool_list":
                    attribute.bool_list.values.extend(value)
                else:
                    setattr(attribute, field, value)
            numbers.append(number)
            number += 1
            yield node
        before = numbers or before


def _of(part: Computing | Call) -> Iterator[tuple[str, int, int, dict[str, tuple[str, Any]]]]:
    """Name, type, microseconds and attributes of each node that stands for something."""
    ours: dict[str, tuple[str, Any]] = {"is_cpu_op": ("bool_val", False)}
    if isinstance(part, Computing):
        yield part.what, COMPUTING, max(round(part.seconds * 1e6), 0), {"is_cpu_op": ("bool_val", True)}
    elif part.operation in MESSAGES:
        size = {"comm_size": ("int64_val", whole(part.size)), "comm_tag": ("int32_val", 0)}
        for to in part.to:
            yield f"send to {to}", SENDING, 0, {**ours, **size, "comm_dst": ("int32_val", to)}
        for source in part.sources:
            yield f"receive from {source}", RECEIVING, 0, {**ours, **size, "comm_src": ("int32_val", source)}
    elif len(part.group) > 1:
        further: dict[str, tuple[str, Any]] = {
            "comm_type": ("int64_val", TYPES[part.operation]),
            "comm_size": ("int64_val", part.size),
            "involved_dim": ("bool_list", [True]),
            "pg_name": ("string_val", group_name(part.group)),
        }
        if part.root is not None:
            further["root_rank"] = ("int32_val", part.root)
        yield part.operation, COLLECTIVE, 0, {**ours, **further}


def group_name(group: tuple[int, ...]) -> str:
    """A name for the ranks of a call: the first, the last, and the step from one to the next.

    Example:
        >>> group_name((0, 4, 8))
        '0-8/4'
    """
    return f"{group[0]}-{group[-1]}/{group[1] - group[0]}"


def write_chakra(program: Program, path: Path) -> list[Path]:
    """Write ``NAME.RANK.et`` beside ``NAME.et``, as ASTRA-sim wants them; or all of it as one file of JSON, to read.

    Args:
        program: What ranks do.
        path: Where to: it ends in ``.et`` or ``.json``.
    """
    from google.protobuf.json_format import MessageToDict

    rows = program.rows()
    if path.suffix == ".json":
        ranks = [[MessageToDict(node) for node in nodes(program, r, rows[r].tolist())] for r in range(program.ranks)]
        text = json.dumps({"schema": f"Chakra {VERSION}, nodes of each rank", "ranks": ranks}, indent=1) + "\n"
        replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return [path]
    files = []
    for rank in range(program.ranks):
        files.append(path.with_name(f"{path.stem}.{rank}.et"))
        content = io.BytesIO()
        _delimited(_types()["GlobalMetadata"](version=VERSION), content)
        for node in nodes(program, rank, rows[rank].tolist()):
            _delimited(node, content)
        replace(files[-1], lambda temporary, content=content: temporary.write_bytes(content.getvalue()))  # type: ignore[misc]
    return files


def _delimited(message: Any, file: io.BytesIO) -> None:
    content = message.SerializeToString()
    remaining = len(content)
    while remaining > 0x7F:
        file.write(bytes([remaining & 0x7F | 0x80]))
        remaining >>= 7
    file.write(bytes([remaining]))
    file.write(content)


def read_chakra(path: Path) -> tuple[str, list[Any]]:
    """The version and the nodes of one rank's file.

    Raises:
        InvalidArgument: It ends within a message.
    """
    content, at = path.read_bytes(), 0
    messages: list[Any] = []
    while at < len(content):
        length = shift = 0
        while True:
            byte = content[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        if at + length > len(content):
            raise InvalidArgument(f"{path}, which ends within a message", "a whole file")
        messages.append(_types()["Node" if messages else "GlobalMetadata"].FromString(content[at : at + length]))
        at += length
    return messages[0].version, messages[1:]
