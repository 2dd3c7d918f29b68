"""Check and time a network in two frameworks, and use the figures.

python examples/compare_frameworks.py [network.onnx]
"""

import sys

import deep_bench as db

network = sys.argv[1] if len(sys.argv) > 1 else "digits-cnn"
result = db.run(network, on=["reference", "onnxruntime:threads=1"], budget=4, output="results")
print(result)

onnxruntime = result["onnxruntime:threads=1"]
print(f"ONNX Runtime is {onnxruntime.verdict}, to {onnxruntime.significant_bits:.1f} bits")
print(f"and takes {onnxruntime.median * 1e6:.1f} microseconds a call")
sys.exit(0 if result.ok else 1)
