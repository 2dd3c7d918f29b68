"""One-sided, which is the default, a frame of 16 gives 16 / 2 + 1 bins."""

import onnx

TEXT = """<ir_version: 10, opset_import: ["": 17]> network (float[1,128,1] x) => (float y) {
    step = Constant <value = int64 {8}> ()
    length = Constant <value = int64 {16}> ()
    y = STFT (x, step, , length)
}"""
model = onnx.parser.parse_model(TEXT)
model.graph.output[0].type.tensor_type.ClearField("shape")
demanded = [1, 15, 9, 2]
shape = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
came = [d.dim_value for d in shape.dim]
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
