"""The systems that ``trainer_speed.py`` compares: each call is an epoch of training with Adam, on data in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _gradient_cases import GradientCase, cases, tensorflow_losses, torch_losses
from _side_by_side import TimedCall

import deep_bench as db

STEPS = 10
"""The number of steps in an epoch."""

RATE = 1e-4


def _data(found: GradientCase) -> dict[str, np.ndarray]:
    """As many samples as an epoch takes."""
    return {name: np.concatenate([array] * STEPS) for name, array in found.feeds.items()}


def _batch(found: GradientCase) -> int:
    return len(next(iter(found.feeds.values())))


def _trainer(framework: str, case: str) -> TimedCall:
    def make() -> Callable[[], Any]:
        from deep_bench.training.sets import ArrayDataset

        found = cases()[case]
        dataset = ArrayDataset(_data(found))
        trainer = db.Trainer.on(
            db.frameworks[framework](threads=1),
            found.network,
            db.optimizers[f"{framework}.adam"](lr=RATE),
            dataset=dataset,
            sampler=db.samplers["shuffled"](dataset, batch_size=_batch(found), seed=1),
        )
        return lambda: trainer.run(epochs=trainer.epoch + 1)

    return TimedCall(make)


def torch(case: str) -> TimedCall:
    """deep_bench's trainer, with ``torch.optim.Adam``."""
    return _trainer("torch", case)


def tensorflow(case: str) -> TimedCall:
    """deep_bench's trainer, with Keras' Adam."""
    return _trainer("tensorflow", case)


def hand_torch(case: str) -> TimedCall:
    """The loop that one writes in PyTorch."""

    def make() -> Callable[[], Any]:
        import torch

        torch.set_num_threads(1)
        found, loss = cases()[case], torch_losses()[case]
        weights = {name: torch.from_numpy(array.copy()).requires_grad_() for name, array in found.weights.items()}
        data = {name: torch.from_numpy(array) for name, array in _data(found).items()}
        optimizer = torch.optim.Adam(weights.values(), lr=RATE)
        count, batch = len(next(iter(data.values()))), _batch(found)

        def epoch() -> Any:
            losses = []
            for chosen in torch.randperm(count).split(batch):
                optimizer.zero_grad()
                value = loss(**{name: array[chosen] for name, array in data.items()}, **weights)
                value.backward()
                optimizer.step()
                losses.append(value.detach())
            return losses

        return epoch

    return TimedCall(make)


def hand_tensorflow(case: str) -> TimedCall:
    """``keras.Model.fit``; its first epoch is over before anything is timed."""

    def make() -> Callable[[], Any]:
        import keras
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        found, loss = cases()[case], tensorflow_losses()[case]

        class Model(keras.Model):
            """The network as a model that returns its loss."""

            def __init__(self) -> None:
                super().__init__()
                self.held = {
                    name: self.add_weight(shape=array.shape, name=name, initializer=keras.initializers.Constant(array))
                    for name, array in found.weights.items()
                }

            def call(self, inputs: Any) -> Any:
                return loss(**inputs, **{name: w.value for name, w in self.held.items()})

        model = Model()
        model.compile(keras.optimizers.Adam(RATE), loss=lambda _, value: value)
        data = _data(found)
        zeros = np.zeros(len(next(iter(data.values()))), np.float32)
        arguments = {"batch_size": _batch(found), "epochs": 1, "verbose": 0, "shuffle": True}
        model.fit(data, zeros, **arguments)
        return lambda: model.fit(data, zeros, **arguments)

    return TimedCall(make)
