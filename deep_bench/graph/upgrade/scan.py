"""Scan-8, which ran over a batch by itself."""

from __future__ import annotations

import onnx_ir as ir

from deep_bench.graph.upgrade.edit import Edit, subgraph_of


def scan_8(edit: Edit) -> None:
    """A scan over the batch, whose body is the scan over the sequence of one sample."""
    if edit.input(0) is not None:
        raise edit.unsupported("sequences of different lengths (sequence_lens) cannot be written since opset 9")
    node, body = edit.node, subgraph_of(edit.node, "body")
    count, directions = edit.take("num_scan_inputs"), edit.take("directions")
    node.attributes.pop("body")
    outer = [v for v in node.inputs[1:] if v is not None]
    samples = [_sample(edit, v) for v in outer]
    attributes = {"body": body, "num_scan_inputs": count}
    if directions is not None:
        attributes["scan_input_directions"] = list(directions)
    inner = ir.Node(
        "",
        "Scan",
        samples,
        ir.convenience.convert_attributes(attributes),
        outputs=[ir.Value(name=edit.names.fresh(f"{v.name}.sample")) for v in node.outputs],
        name=edit.names.fresh(f"{node.name}.sample"),
    )
    batch = ir.Graph(samples, inner.outputs, nodes=[inner], name=edit.names.fresh(f"{body.name}.batch"))
    edit.become("Scan", *outer, body=batch, num_scan_inputs=len(samples))


def _sample(edit: Edit, value: ir.Value) -> ir.Value:
    dtype = edit.types.dtype(value)
    kind = value.type if dtype is None else ir.TensorType(ir.DataType.from_numpy(dtype))
    return ir.Value(name=edit.names.fresh(f"{value.name}.sample"), type=kind)
