"""``onnx.reference`` as a second opinion on the reference, and every place where the two differ."""
