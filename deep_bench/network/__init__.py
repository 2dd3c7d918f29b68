"""Layer 1: a whole ONNX network."""
