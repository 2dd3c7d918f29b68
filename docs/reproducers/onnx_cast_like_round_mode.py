"""CastLike hands its attributes on to the Cast that its function body consists of."""

import onnx
from onnx import helper

node = helper.make_node("CastLike", ["x", "like"], ["y"], round_mode="down")
types = [helper.make_tensor_type_proto(kind, None) for kind in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT8E8M0)]
made = onnx.defs.get_schema("CastLike", 25).get_context_dependent_function_with_opset_version(
    25, node.SerializeToString(), [kind.SerializeToString() for kind in types]
)
demanded = ["round_mode", "saturate", "to"]
came = sorted(attribute.name for attribute in onnx.FunctionProto.FromString(made).node[0].attribute)
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
