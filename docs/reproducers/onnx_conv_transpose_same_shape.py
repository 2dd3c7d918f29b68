"""Under SAME_UPPER the output is as long as the input times the stride, here 3 * 2."""

import onnx

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,3] x, float[1,1,1] w) => (float y) {
    y = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w)
}"""
model = onnx.parser.parse_model(TEXT)
model.graph.output[0].type.tensor_type.ClearField("shape")
demanded = [1, 1, 6]
shape = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
came = [d.dim_value for d in shape.dim]
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
