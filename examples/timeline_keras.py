"""Where does the time of ``fit`` go? A timeline as Keras's callback, and what the first step costs.

python examples/timeline_keras.py
"""

from __future__ import annotations

import keras
import numpy as np

import deep_bench as db
from deep_bench.data import digits


def main() -> None:
    keras.utils.set_random_seed(0)
    images, labels = digits("train")
    x = images.transpose(0, 2, 3, 1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(3e-3), loss=loss, metrics=["accuracy"])
    with db.timeline(synchronize="tensorflow") as t:
        model.fit(x, labels, batch_size=64, epochs=3, validation_split=0.1, verbose=0, callbacks=[t.callback("keras")])
    t.report()
    phase = t.result()["training"]
    typical = float(np.median(phase.durations_ns)) / 1e9
    print(f"the first step, in which the graph is built, takes as long as {phase.warm_up[0] / typical:.0f} others")


if __name__ == "__main__":
    main()
