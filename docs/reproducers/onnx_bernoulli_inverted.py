"""A draw is 1 with the given probability; the function body is 1 where a uniform number is greater than it."""

import onnx
from onnx import helper

schema, node = onnx.defs.get_schema("Bernoulli", 22), helper.make_node("Bernoulli", ["p"], ["y"])
kinds = [helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None).SerializeToString()]
text = schema.get_context_dependent_function_with_opset_version(22, node.SerializeToString(), kinds)
drawn, compared, _ = onnx.FunctionProto.FromString(text).node
demanded = [("Less", "drawn", "p"), ("Greater", "p", "drawn")]
came = (compared.op_type, *("drawn" if name == drawn.output[0] else "p" for name in compared.input))
print("demanded: one of", demanded, "came:", came)
raise SystemExit(int(came not in demanded))
