"""``tf.train.Example`` without TensorFlow: its messages are declared to protobuf here, in a pool of their own.

Why protobuf and not code of our own for its wire format: onnx brings the package anyway, and its parser is written in C,
safe with damaged bytes, and faster than any in Python. In a pool of their own the messages do not meet TensorFlow's, which a
process may have too.

Source:
    TensorFlow, core/example/example.proto and feature.proto: the names and numbers of the fields.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "deep_bench.example"
_Field = descriptor_pb2.FieldDescriptorProto
_LISTS = (
    ("BytesList", "bytes_list", _Field.TYPE_BYTES),
    ("FloatList", "float_list", _Field.TYPE_FLOAT),
    ("Int64List", "int64_list", _Field.TYPE_INT64),
)


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="deep_bench/example.proto", package=_PACKAGE, syntax="proto3")
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field, kind) in enumerate(_LISTS, start=1):
        values = file.message_type.add(name=name)
        values.field.add(name="value", number=1, label=_Field.LABEL_REPEATED, type=kind)
        _add(feature, field, number, _Field.LABEL_OPTIONAL, name).oneof_index = 0
    file.message_type.append(feature)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    _add(entry, "value", 2, _Field.LABEL_OPTIONAL, "Feature")
    _add(features, "feature", 1, _Field.LABEL_REPEATED, "Features.FeatureEntry")
    _add(file.message_type.add(name="Example"), "features", 1, _Field.LABEL_OPTIONAL, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Example"))


def _add(message: Any, name: str, number: int, label: int, of: str) -> Any:
    return message.field.add(name=name, number=number, label=label, type=_Field.TYPE_MESSAGE, type_name=f".{_PACKAGE}.{of}")


Example = _message_class()
"""The message class: ``Example.FromString(data).features.feature["label"].int64_list.value``."""
