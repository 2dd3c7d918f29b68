"""An open dimension stays open; no dimension is 0."""

import onnx

TEXT = """<ir_version: 10, opset_import: ["": 23]> network
    (float[b,s,t] q, float[b,s,t] k, float[b,s,t] v)
    => (float y) {
    y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)
}"""
model = onnx.parser.parse_model(TEXT)
model.graph.output[0].type.tensor_type.ClearField("shape")
demanded = [False, False, False]
shape = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
came = [d.HasField("dim_value") for d in shape.dim]
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
