"""The fields of a recipe, as pydantic models; each says what it is when it is left out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt

Number = Annotated[float, Field(allow_inf_nan=False)]


class Part(BaseModel):
    """What all parts of a recipe share."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _named(value: Any) -> Any:
    """A name alone stands for a thing without settings."""
    return {"name": value} if isinstance(value, str) else value


class Named(BaseModel):
    """Something with a name and settings, which are written beside the name; a string is a name without settings."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: str

    @property
    def settings(self) -> dict[str, Any]:
        """What is written beside the fields that every such thing has."""
        return dict(self.model_extra or {})


class InitializationPart(Part):
    """Settings of `deep_bench.training.initial.initialize`."""

    scheme: str = "he-normal"
    gain: Number = 1.0
    embedding: Number = 0.02
    others: Literal["refuse", "keep"] = "refuse"


class LossPart(Named):
    """``name``: a loss of `deep_bench.training.networks.with_loss`; settings: its attributes.

    Attributes:
        output: The network's value that it is the loss of.
        target: The array of a sample that says what it should be.
    """

    output: str
    target: str | None = None


class DataPart(Named):
    """``name``: a set of ``db.datasets``; settings: its arguments.

    Attributes:
        split: How it is divided into samples to train on and samples held out: one of
            `deep_bench.training.recipes.parts.SPLITS` with its settings; ``parts`` by default: the set's own parts ``train``
            and ``test``.
    """

    split: Annotated[Named, BeforeValidator(_named)] = Named(name="parts")


class SamplerPart(Named):
    """``name``: one of ``db.samplers``, ``shuffled`` by default; settings: its arguments; those of ``weighted`` and
    ``infinite`` are in `deep_bench.training.recipes.samplers`.

    Attributes:
        batch: The number of samples in a step; 64 by default.
    """

    name: str = "shuffled"
    batch: PositiveInt = 64


class SchedulePart(Named):
    """``name``: one of `deep_bench.training.recipes.parts.SCHEDULES`; settings: its arguments.

    Attributes:
        steps: How many steps it takes; by default all of the run, less those of warm-up.
        warm_up: Steps in which the rate rises to its first value; 0 by default.
    """

    steps: PositiveInt | None = None
    warm_up: NonNegativeInt = 0


class OptimizerPart(Named):
    """``name``: one of ``db.optimizers``, ``adam`` by default; settings: its arguments.

    Attributes:
        schedule: How the learning rate changes; not at all by default.
    """

    name: str = "adam"
    schedule: Annotated[SchedulePart | None, BeforeValidator(_named)] = None


class EvaluationPart(Part):
    """When and how the network is evaluated.

    Attributes:
        every: After how many samples; 0, the default, for the end of each epoch.
        batch: The number of samples at a time; 256 by default.
    """

    every: NonNegativeInt = 0
    batch: PositiveInt = 256


class RecipeModel(Part):
    """A recipe as it is written.

    Attributes:
        name: What it is called; the file's name by default.
        title: In a few words; nothing by default.
        domain: Which of MLPerf's domains it is of, if any.
        notes: Further sentences; none by default.
        network: One of ``db.networks`` with its arguments, or an ONNX file.
        initialization: How its parameters are drawn; He by default; ``null`` for those that the network has.
        loss: What is made small.
        data: What is learnt from and evaluated on.
        augmentation: Steps of a preparation for training only, before those of
        preparation: for all samples; none by default.
        sampler: Which samples come when.
        optimizer: The update rule.
        chain: Parts around the optimizer, outermost first (`deep_bench.training.recipes.parts.CHAIN`); none by default.
        scores: What the network is evaluated by. Their ``output`` and ``target`` are the loss's by default.
        evaluation: When.
        target: Name of a score to the value that a run must reach; none by default.
        epochs: At most; 10 by default.
        seeds: Of the runs; 0 by default.
        frameworks: Where it runs; all four by default.
    """

    name: str = ""
    title: str = ""
    domain: Literal["vision", "language", "recommendation", "science"] | None = None
    notes: list[str] = []
    network: Annotated[Named, BeforeValidator(_named)]
    initialization: InitializationPart | None = InitializationPart()
    loss: LossPart
    data: Annotated[DataPart, BeforeValidator(_named)]
    augmentation: list[dict[str, Any]] = []
    preparation: list[dict[str, Any]] = []
    sampler: Annotated[SamplerPart, BeforeValidator(_named)] = SamplerPart()
    optimizer: Annotated[OptimizerPart, BeforeValidator(_named)] = OptimizerPart()
    chain: list[Annotated[Named, BeforeValidator(_named)]] = []
    scores: Annotated[list[Annotated[Named, BeforeValidator(_named)]], Field(min_length=1)]
    evaluation: EvaluationPart = EvaluationPart()
    target: Annotated[dict[str, Number], Field(max_length=1)] = {}
    epochs: PositiveInt = 10
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1)] = [0]
    frameworks: Annotated[list[str], Field(min_length=1)] = ["reference", "torch", "tensorflow", "onnxruntime"]
