"""What ``executor.bind`` costs beside the same network bound by hand in each framework.

    python benchmarks/bind_cost.py [--budget 20] [--stage det.onnx] [--only torch]

A bar holds when the upper end of the ratio's interval does.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import Bar, Comparison, run


def comparisons(stage: str | None) -> dict[str, Comparison]:
    found = {
        "onnxruntime": Comparison(
            "ONNX Runtime, digits-cnn, batch 8",
            {
                "deep_bench": "_bind_systems:ours_onnxruntime_digits",
                "by hand, IOBinding": "_bind_systems:hand_onnxruntime_binding",
                "by hand, session.run": "_bind_systems:hand_onnxruntime_run",
            },
            [Bar("deep_bench", "by hand, IOBinding", 1.02), Bar("deep_bench", "by hand, session.run", 1.0)],
        ),
        "torch": Comparison(
            "PyTorch, digits-cnn, batch 8",
            {"deep_bench": "_bind_systems:ours_torch_digits", "by hand": "_bind_systems:hand_torch_digits"},
            [Bar("deep_bench", "by hand", 1.05)],
        ),
        "torch-relu": Comparison(
            "PyTorch, one Relu on 1,024 floats",
            {"deep_bench": "_bind_systems:ours_torch_relu", "by hand": "_bind_systems:hand_torch_relu"},
            [Bar("deep_bench", "by hand", 1.0, allowance_ns=300)],
        ),
        "tensorflow": Comparison(
            "TensorFlow, digits-cnn, batch 8",
            {
                "deep_bench": "_bind_systems:ours_tensorflow_digits",
                "Keras in a tf.function": "_bind_systems:hand_tensorflow_digits",
            },
            [Bar("deep_bench", "Keras in a tf.function", 1.05)],
        ),
    }
    if stage is not None:
        found["torch-stage"] = Comparison(
            "PyTorch, first stage of PP-OCR's detector, 160 x 160",
            {"deep_bench": "_bind_systems:ours_torch_stage", "by hand": "_bind_systems:hand_torch_stage"},
            [Bar("deep_bench", "by hand", 1.05)],
            {"file": stage},
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each comparison")
    parser.add_argument("--stage", help="PP-OCRv6_det_small.onnx of the package rapidocr")
    parser.add_argument("--only", action="append", help="names of comparisons")
    arguments = parser.parse_args()
    chosen = comparisons(arguments.stage)
    held = [run(c, budget=arguments.budget) for name, c in chosen.items() if name in (arguments.only or chosen)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
