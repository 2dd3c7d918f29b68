"""How good a network is on a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.framework import A, Executor
from deep_bench.training.dataset import Dataset
from deep_bench.training.scores import Score


class Evaluation(Generic[A]):
    """Runs a network on a whole data set, in order, and scores it.

    Args:
        executor: The network to evaluate, prepared with ``mode="train"``, so that it takes parameters as they are.
        dataset: The samples; those of their arrays that the network has as inputs are fed.
        scores: Each makes a fresh `Score`.
        batch: The number of samples at a time; the last batch may be smaller.

    Attributes:
        scores: Those of the last evaluation, with all that they know; unused ones before the first.

    Raises:
        InvalidArgument: No samples, no scores, or two of one name.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.training.scores import Accuracy, ConfusionMatrix
        >>> digits = db.datasets["digits"](part="test")
        >>> executor = db.frameworks["reference"]().prepare(db.load("digits-cnn"), mode="train")
        >>> made = [lambda: Accuracy("logits", "label"), lambda: ConfusionMatrix("logits", "label")]
        >>> evaluation = Evaluation(executor, digits, made)
        >>> figures = evaluation(executor.parameters, {})
        >>> sorted(figures), figures["accuracy"] > 0.9
        (['accuracy', 'balanced accuracy'], True)
        >>> evaluation.scores["balanced accuracy"].recall.shape
        (10,)
    """

    def __init__(
        self, executor: Executor[A], dataset: Dataset, scores: Sequence[Callable[[], Score]], *, batch: int = 256
    ) -> None:
        if not len(dataset) or not scores or batch < 1:
            raise InvalidArgument(
                f"an evaluation on {len(dataset)} samples by {len(scores)} scores in batches of {batch}",
                "at least one of each",
            )
        self.executor, self.dataset, self.batch = executor, dataset, batch
        self._makers = tuple(scores)
        self.scores = self._fresh()

    def __call__(self, parameters: Mapping[str, A], statistics: Mapping[str, A]) -> dict[str, float]:
        """Name of each score to its value.

        Args:
            parameters: Native arrays, taken as they are, without a copy.
            statistics: Further inputs.

        Raises:
            InvalidInput: The data set lacks an input of the network, or something that a score needs.
        """
        for name, value in parameters.items():
            if value is not self.executor.parameters[name]:
                self.executor.parameters[name] = value
        self.scores = self._fresh()
        for start in range(0, len(self.dataset), self.batch):
            batch = self.dataset[np.arange(start, min(start + self.batch, len(self.dataset)))]
            outputs = self._outputs(batch, statistics)
            for score in self.scores.values():
                score.add(outputs, batch)
        return {name: score.value() for name, score in self.scores.items()}

    def _fresh(self) -> dict[str, Score]:
        made = [make() for make in self._makers]
        found: dict[str, Score] = {}
        for score in made:
            if not isinstance(score, Score):
                raise InvalidArgument(f"a {type(score).__name__} as a score", "functions that each make a Score")
            if score.name in found:
                raise InvalidArgument(f"two scores named {score.name!r}", "a name of its own for each")
            found[score.name] = score
        return found

    def _outputs(self, batch: Mapping[str, np.ndarray], statistics: Mapping[str, A]) -> dict[str, np.ndarray]:
        device = self.executor.device
        fed: dict[str, Any] = dict(statistics)
        for spec in self.executor.inputs:
            if spec.name in statistics:
                continue
            if spec.name not in batch:
                raise InvalidInput(f"samples without {spec.name!r}: {', '.join(batch)}", f"what the network takes: {spec}")
            fed[spec.name] = device.adopt(batch[spec.name])
        outputs = self.executor.forward(fed)
        device.synchronize()
        return {name: device.to_numpy(value) for name, value in outputs.items()}
