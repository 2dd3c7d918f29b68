"""Where does the time of a step go? A linear classifier in NumPy, with a timeline around its loop.

python examples/timeline_numpy.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import deep_bench as db
from deep_bench.data import digits
from deep_bench.training.timeline import load

EPOCHS, BATCH, LR = 5, 64, 0.5

Batch = tuple[np.ndarray, np.ndarray]


def batches(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Batch]:
    order = rng.permutation(len(images))
    for begin in range(0, len(order), BATCH):
        chosen = order[begin : begin + BATCH]
        yield images[chosen].reshape(len(chosen), -1), np.eye(10, dtype=np.float32)[labels[chosen]]


def main() -> None:
    images, labels = digits("train")
    rng = np.random.default_rng(0)
    weights = np.zeros((64, 10), np.float32)
    with db.timeline(save="timeline.json") as t:
        for _ in range(EPOCHS):
            for x, y in t.over(batches(images, labels, rng), "data"):
                with t.region("forward"):
                    scores = x @ weights
                    with t.region("softmax"):
                        p = np.exp(scores - scores.max(axis=1, keepdims=True))
                        p /= p.sum(axis=1, keepdims=True)
                with t.region("backward"):
                    gradient = x.T @ (p - y) / len(x)
                with t.region("update"):
                    weights -= LR * gradient
            with t.region("evaluate"):
                x, y = next(batches(*digits("test"), rng))
                accuracy = float(np.mean((x @ weights).argmax(axis=1) == y.argmax(axis=1)))
    t.report()
    print(f"accuracy {accuracy:.2f}; open in https://ui.perfetto.dev: {t.chrome_trace('trace.json')}")
    again = load(Path("timeline.json"))
    print(f"the record says the same: {again.as_text() == t.result().as_text()}")


if __name__ == "__main__":
    main()
