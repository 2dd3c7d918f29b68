"""How good a network is on a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.framework import A, Executor
from deep_bench.training.dataset import Dataset
from deep_bench.training.form import Feed
from deep_bench.training.loader import Fetch
from deep_bench.training.samplers import natural
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
        UnknownName: A score reads an output that the network does not have, or an array that the samples do not.

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
        if not len(dataset) or not scores or natural("batch", batch) < 1:
            raise InvalidArgument(
                f"an evaluation on {len(dataset)} samples by {len(scores)} scores in batches of {batch}",
                "at least one of each",
            )
        self.executor, self.dataset, self.batch = executor, dataset, batch
        self._fetch = Fetch(dataset)
        self._makers = tuple(scores)
        self.scores = self._fresh()
        for score in self.scores.values():
            self._check_names(score)

    def __call__(self, parameters: Mapping[str, A], statistics: Mapping[str, A]) -> dict[str, float]:
        """Name of each score to its value.

        Args:
            parameters: Native arrays, taken as they are, without a copy.
            statistics: Further inputs.

        Raises:
            InvalidInput: The data set lacks an input of the network or something that a score needs, or does not fit them.
            InvalidData: A sample cannot be read, or is something else than arrays by name.
        """
        for name, value in parameters.items():
            if value is not self.executor.parameters[name]:
                self.executor.parameters[name] = value
        self.scores = self._fresh()
        feed = Feed([spec for spec in self.executor.inputs if spec.name not in statistics], self.executor.network)
        for start in range(0, len(self.dataset), self.batch):
            numbers = np.arange(start, min(start + self.batch, len(self.dataset)))
            batch = self._fetch(0, numbers)
            outputs = self._outputs(feed(batch, numbers), statistics)
            for score in self.scores.values():
                score.add(outputs, batch)
        return {name: score.value() for name, score in self.scores.items()}

    def _fresh(self) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        for make in self._makers:
            score = make() if callable(make) else make
            if score is make or not isinstance(score, Score):
                came = f"a {type(score).__name__} as what makes a score"
                raise InvalidArgument(came, "functions that each make a fresh Score", "scores=[lambda: Accuracy(…), …]")
            if score.name in scores:
                raise InvalidArgument(f"two scores named {score.name!r}", "a name of its own for each")
            scores[score.name] = score
        return scores

    def _check_names(self, score: Score) -> None:
        if score.reads is None:
            return
        output, array = score.reads
        outputs = [spec.name for spec in self.executor.network.outputs] if self.executor.network is not None else []
        if outputs and output not in outputs:
            raise UnknownName(f"output of the network for the {score.name}", output, outputs)
        held = [spec.name for spec in getattr(self.dataset, "specs", ())]
        if held and array is not None and array not in held:
            raise UnknownName(f"array of the samples for the {score.name}", array, held)

    def _outputs(self, batch: Mapping[str, np.ndarray], statistics: Mapping[str, A]) -> dict[str, np.ndarray]:
        device = self.executor.device
        fed = {name: device.adopt(array) for name, array in batch.items()}
        outputs = self.executor.forward({**fed, **statistics})
        device.synchronize()
        return {name: device.to_numpy(value) for name, value in outputs.items()}
