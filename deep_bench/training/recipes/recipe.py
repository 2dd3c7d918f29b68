"""``Recipe``: all that a training run is made from, as pydantic models, read from YAML and checked field by field."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from deep_bench import datasets, frameworks, networks, optimizers, samplers
from deep_bench.errors import InvalidArgument, UnknownName, nearest
from deep_bench.training import compose, optimizer, scores
from deep_bench.training.dataset import Dataset, labels_of
from deep_bench.training.initial import SCHEMES
from deep_bench.training.networks import LOSSES
from deep_bench.training.preparation import Preparation
from deep_bench.training.recipes.splits import SPLITS
from deep_bench.training.samplers import Infinite, Sampler, Weighted
from deep_bench.training.scores import Score
from deep_bench.yaml_text import RecipePart, model_in, parsed

__all__ = ["CHAIN", "SCHEDULES", "SCORES"]

Number = Annotated[float, Field(allow_inf_nan=False)]
_FRAMEWORKS = ("reference", "torch", "tensorflow", "onnxruntime")


def _named(value: Any) -> Any:
    """A name alone stands for a thing without settings."""
    return {"name": value} if isinstance(value, str) else value


class NamedPart(BaseModel):
    """Something with a name and settings, which are written beside the name; a string is a name without settings."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: str

    @property
    def settings(self) -> dict[str, Any]:
        """What is written beside the fields that every such thing has."""
        return dict(self.model_extra or {})


class InitializationPart(RecipePart):
    """Settings of `deep_bench.training.initial`."""

    scheme: str = "he-normal"
    gain: Number = 1.0
    embedding: Number = 0.02
    others: Literal["refuse", "keep"] = "refuse"


class LossPart(NamedPart):
    """``name``: a loss of `deep_bench.training.networks.with_loss`; settings: its attributes.

    Attributes:
        output: The network's value that it is the loss of.
        target: The array of a sample that says what it should be.
    """

    output: str
    target: str | None = None


class DataPart(NamedPart):
    """``name``: a set of ``db.datasets``; settings: its arguments.

    Attributes:
        split: How it is divided into samples to train on and samples held out: one of
            `deep_bench.training.recipes.splits.SPLITS` with its settings; ``parts`` by default: the set's own parts
            ``train`` and ``test``.
    """

    split: Annotated[NamedPart, BeforeValidator(_named)] = NamedPart(name="parts")


class SamplerPart(NamedPart):
    """``name``: one of ``db.samplers``, ``shuffled`` by default; settings: its arguments; those of ``weighted`` and
    ``infinite`` are in `deep_bench.training.recipes.recipe`.

    Attributes:
        batch: The number of samples in a step; 64 by default.
    """

    name: str = "shuffled"
    batch: PositiveInt = 64


class SchedulePart(NamedPart):
    """``name``: one of `deep_bench.training.recipes.recipe.SCHEDULES`; settings: its arguments.

    Attributes:
        steps: How many steps it takes; by default all of the run, less those of warm-up.
        warm_up: Steps in which the rate rises to its first value; 0 by default.
    """

    steps: PositiveInt | None = None
    warm_up: NonNegativeInt = 0


class OptimizerPart(NamedPart):
    """``name``: one of ``db.optimizers``, ``adam`` by default; settings: its arguments.

    Attributes:
        schedule: How the learning rate changes; not at all by default.
    """

    name: str = "adam"
    schedule: Annotated[SchedulePart | None, BeforeValidator(_named)] = None


class EvaluationPart(RecipePart):
    """When and how the network is evaluated.

    Attributes:
        every: After how many samples; 0, the default, for the end of each epoch.
        batch: The number of samples at a time; 256 by default.
    """

    every: NonNegativeInt = 0
    batch: PositiveInt = 256


class RecipeModel(RecipePart):
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
        chain: Parts around the optimizer, outermost first (`deep_bench.training.recipes.recipe.CHAIN`); none by default.
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
    notes: list[str] = Field(default_factory=list)
    network: Annotated[NamedPart, BeforeValidator(_named)]
    initialization: InitializationPart | None = InitializationPart()
    loss: LossPart
    data: Annotated[DataPart, BeforeValidator(_named)]
    augmentation: list[dict[str, Any]] = Field(default_factory=list)
    preparation: list[dict[str, Any]] = Field(default_factory=list)
    sampler: Annotated[SamplerPart, BeforeValidator(_named)] = SamplerPart()
    optimizer: Annotated[OptimizerPart, BeforeValidator(_named)] = OptimizerPart()
    chain: list[Annotated[NamedPart, BeforeValidator(_named)]] = Field(default_factory=list)
    scores: Annotated[list[Annotated[NamedPart, BeforeValidator(_named)]], Field(min_length=1)]
    evaluation: EvaluationPart = EvaluationPart()
    target: Annotated[dict[str, Number], Field(max_length=1)] = Field(default_factory=dict)
    epochs: PositiveInt = 10
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1)] = Field(default_factory=lambda: [0])
    frameworks: Annotated[list[str], Field(min_length=1)] = Field(default_factory=lambda: list(_FRAMEWORKS))


_MANY = 5


def refusal(where: str, error: ValidationError) -> InvalidArgument:
    """The error that names each field that is unknown, missing or of another kind, and what it could have been.

    Args:
        where: What was read.
        error: What pydantic says.
    """
    faults = error.errors(include_url=False)
    messages = [_worded(fault) for fault in faults]
    suffix = f"; and {len(messages) - _MANY} more" if len(messages) > _MANY else ""
    return InvalidArgument(
        f"the recipe {where}: {'; '.join(came for came, _, _ in messages[:_MANY])}{suffix}", messages[0][1], messages[0][2]
    )


def _worded(fault: Any) -> tuple[str, str, str]:
    path = fault["loc"]
    field = ".".join(map(str, path))
    fields = _fields(path[:-1])
    listing = ", ".join(fields)
    if fault["type"] == "extra_forbidden":
        return f"unknown field {field!r}", f"some of {listing}", nearest(str(path[-1]), fields)
    if fault["type"] == "missing":
        input_names = [name for name in fault["input"] if name not in fields] if isinstance(fault["input"], dict) else []
        near = difflib.get_close_matches(str(path[-1]), input_names, n=1)
        return f"{field!r} is missing", f"a value for {field!r}", f"is {near[0]!r} it, misspelt?" if near else ""
    return f"{field!r} is {fault['input']!r}", fault["msg"][:1].lower() + fault["msg"][1:], ""


def _fields(path: Sequence[Any]) -> list[str]:
    """The fields of the part of a recipe that a path leads to; those that every named thing has if none is known."""
    model: type[BaseModel] = RecipeModel
    for step in path:
        field = model.model_fields.get(str(step))
        inner = None if field is None else model_in(field.annotation)
        model = model if isinstance(step, int) else inner or NamedPart
    return list(model.model_fields)


def assigned(content: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A recipe's content with some fields set to other values.

    Args:
        content: As a YAML file has it.
        assignments: ``path=value`` each: the path as in ``optimizer.lr`` or ``scores.0.k``, the value as in YAML.

    Raises:
        InvalidArgument: No ``path=value``, or a path into what has no fields.

    Example:
        >>> assigned({"network": "mlp", "epochs": 5}, ["network.hidden=[32, 32]", "epochs=3"])
        {'network': {'name': 'mlp', 'hidden': [32, 32]}, 'epochs': 3}
    """
    target = deepcopy(dict(content))
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not path or not equals:
            raise InvalidArgument(f"{assignment!r} to change in a recipe", "path=value, such as optimizer.lr=0.01")
        _assign(target, path.split("."), parsed(value, f"the value of {path}"), path)
    return target


def _assign(content: Any, path: list[str], value: Any, whole: str) -> None:
    first, *tail = path
    if isinstance(content, list) and first.isdecimal() and int(first) < len(content):
        key: Any = int(first)
    elif isinstance(content, dict) and first:
        key = first
    else:
        raise InvalidArgument(f"the path {whole!r}, whose {first!r} leads nowhere", "names of fields with dots between")
    if not tail:
        content[key] = value
        return
    if isinstance(content, dict) and content.get(key) is None:
        content[key] = {}
    if isinstance(content[key], str):  # a name without settings
        content[key] = {"name": content[key]}
    _assign(content[key], tail, value, whole)


_FIELDS = MappingProxyType({"batch_size": "sampler.batch", "samples": "data", "seed": "seeds"})
"""Arguments that come from elsewhere, and the field of the recipe that says them."""


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def complete(
    make: Callable[..., Any], settings: Mapping[str, Any], where: str, *, given: Collection[str] = ()
) -> dict[str, Any]:
    """All settings of a thing: those stated, and the defaults of the others.

    Args:
        make: What makes it.
        settings: Those that a recipe states.
        where: Which part of the recipe, with the thing's name.
        given: Arguments that come from elsewhere.

    Raises:
        InvalidArgument: A setting that it does not have, that comes from elsewhere, or is missing.

    Example:
        >>> complete(lambda lr=0.1, beta=0.9: None, {"lr": 0.5}, "optimizer mine")
        {'lr': 0.5, 'beta': 0.9}
    """
    parameters = inspect.signature(make).parameters
    by_name = {n: p for n, p in parameters.items() if p.kind in _NAMED and n not in given}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in settings:
        if name in given:
            advice = f"that is {_FIELDS[name]}" if name in _FIELDS else ""
            came = f"{where} with {name}={settings[name]!r}"
            raise InvalidArgument(came, "a recipe that leaves this to other fields", advice)
        if name not in by_name and not anything:
            expected = f"some of {', '.join(by_name)}" if by_name else "none"
            raise InvalidArgument(f"{where} has no setting {name!r}", expected, nearest(name, by_name))
    missing = [n for n, p in by_name.items() if p.default is p.empty and n not in settings]
    if missing:
        near = nearest(missing[0], settings)
        raise InvalidArgument(f"{where} lacks the setting {missing[0]!r}", f"a value for {missing[0]!r}", near)
    return {**{n: p.default for n, p in by_name.items() if p.default is not p.empty}, **settings}


def plain(value: Any) -> Any:
    """A setting as JSON has it: tuples are lists, mappings dicts.

    Raises:
        InvalidArgument: It is something that JSON does not have.

    Example:
        >>> plain({"sizes": (1, 2)})
        {'sizes': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidArgument(f"the setting {value!r}, a {type(value).__name__}", "numbers, strings, lists and mappings")


GIVEN = ("samples", "batch_size", "seed")
"""What comes from elsewhere in the recipe."""


def weighted(
    samples: Dataset,
    batch_size: int,
    *,
    weights: str | Sequence[float] = "balanced",
    per_epoch: int | None = None,
    seed: int = 0,
    drop_last: bool = False,
) -> Sampler:
    """`Weighted`, its weights by class: a sample of class ``c`` is drawn with a probability in proportion to ``weights[c]``.

    Args:
        samples: The set.
        batch_size: Samples in a batch.
        weights: One for each class, or ``"balanced"``: one over the number of its samples, so that all classes are equally
            likely.
        per_epoch: Samples in an epoch; by default as many as the set has.
        seed: With the number of the epoch, it decides what is drawn.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: Not one weight for each class, or weights that cannot be.
        Unsupported: The set has no classes.
    """
    labels = labels_of(samples)
    if isinstance(weights, str):
        if weights != "balanced":
            raise InvalidArgument(f"weights={weights!r} of the sampler weighted", "'balanced', or a number for each class")
        _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
        each = 1 / counts[which]
    else:
        if labels.min() < 0 or labels.max() >= len(weights):
            classes = f"classes from {labels.min()} to {labels.max()}"
            raise InvalidArgument(f"{len(weights)} weights of the sampler weighted for {classes}", "one for each class")
        each = np.asarray(weights, np.float64)[labels]
    return Weighted(each, batch_size, per_epoch=per_epoch, seed=seed, drop_last=drop_last)


def infinite(
    samples: Dataset, batch_size: int, *, batches: int, of: str = "shuffled", seed: int = 0, **settings: Any
) -> Sampler:
    """`Infinite`: the epochs of another sampler one after another, cut after so many batches.

    Args:
        samples: The set.
        batch_size: Samples in a batch.
        batches: Batches in an epoch.
        of: The other sampler, by its name.
        seed: Of that sampler.
        settings: Of that sampler.

    Raises:
        InvalidArgument: Less than one batch, ``infinite`` itself, or a setting that the other sampler does not have.
        UnknownName: No such sampler.
    """
    if of == "infinite":
        raise InvalidArgument("the sampler infinite of itself", "of=shuffled, or another sampler with an end")
    make = sampler_named(of)
    complete(make, settings, f"sampler infinite of {of}", given=GIVEN)
    return Infinite(make(samples, batch_size, **seeded(make, seed), **settings), batches)


_OWN: Mapping[str, Callable[..., Sampler]] = MappingProxyType({"infinite": infinite, "weighted": weighted})
"""Those that are made from something else than a set, as they are made from one here."""


def sampler_named(name: str) -> Callable[..., Sampler]:
    """What makes a sampler from a set and the size of a batch.

    Raises:
        UnknownName: No such sampler.
        InvalidArgument: One that is made from something else.
    """
    make: Callable[..., Sampler] = _OWN.get(name) or samplers[name]
    if tuple(signature(make).parameters)[:2] != GIVEN[:2]:
        raise InvalidArgument(f"the sampler {name} in a recipe", "one that is made from a set and the size of a batch")
    return make


def seeded(make: Callable[..., Sampler], seed: int) -> dict[str, int]:
    """The seed as an argument, for those that have one."""
    return {"seed": seed} if "seed" in signature(make).parameters else {}


SCHEDULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "cosine": optimizer.Cosine,
        "one-cycle": optimizer.OneCycle,
        "polynomial": optimizer.Polynomial,
        "step": optimizer.StepDecay,
    }
)
"""Name to schedule of the learning rate."""


CHAIN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "accumulate": compose.accumulate,
        "average": compose.average,
        "clip-norm": compose.clip_norm,
        "clip-value": compose.clip_value,
        "decay": compose.decay,
    }
)
"""Name to part around an optimizer."""


SCORES: Mapping[str, Callable[..., scores.Score]] = MappingProxyType(
    {
        "accuracy": scores.Accuracy,
        "confusion": scores.ConfusionMatrix,
        "cross-entropy": scores.NatsPerToken,
        "hit-rate": scores.HitRate,
        "mean-absolute-error": scores.MeanAbsoluteError,
        "mean-output": scores.MeanOutput,
        "mean-squared-error": scores.MeanSquaredError,
        "ndcg": scores.NDCG,
        "perplexity": scores.Perplexity,
        "r2": scores.R2,
        "relative-error": scores.RelativeError,
        "root-mean-squared-error": scores.RootMeanSquaredError,
    }
)
"""Name to score."""


class Recipe:
    """A training run as data: network, data, optimizer, what is evaluated, and when it is good enough.

    Fields are those of `deep_bench.training.recipes.recipe.RecipeModel`, as attributes of ``fields``.

    Args:
        content: As a YAML file has it.
        name: What it is called where it does not say so itself.

    Raises:
        InvalidArgument: A field that is unknown, missing or of another kind, or a setting that what it names does not have;
            each is named, with the nearest known one.
        UnknownName: A network, data set, optimizer, … that there is not.
        FrameworkMissing: A framework that is not installed here.

    Example:
        >>> from deep_bench.training.recipes import load_recipe
        >>> recipe = load_recipe("digits").changed("optimizer.lr=0.01", "sampler.batch=32")
        >>> recipe.fields.optimizer.settings["lr"], recipe.resolved()["sampler"]["batch"]
        (0.01, 32)
    """

    def __init__(self, content: Mapping[str, Any], name: str = "recipe") -> None:
        try:
            fields = RecipeModel.model_validate({"name": name, **content} if isinstance(content, Mapping) else content)
        except ValidationError as error:
            raise refusal(repr(name), error) from error
        self.fields: RecipeModel = fields
        self._check()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.fields.name

    def changed(self, *assignments: str) -> Recipe:
        """The recipe with some fields set to other values.

        Args:
            *assignments: ``path=value`` each: the path as in ``optimizer.lr`` or ``scores.0.k``, the value as in YAML.

        Raises:
            InvalidArgument: No ``path=value``, a path into what has no fields, or what it gives is no recipe.
            UnknownName: See `Recipe`.
        """
        return Recipe(assigned(self.fields.model_dump(), assignments), self.name)

    def resolved(self) -> dict[str, Any]:
        """Everything, each default written out, as plain JSON: what a record keeps.

        Raises:
            FrameworkMissing: The recipe names the optimizer of a framework that is not installed here.
        """
        content: dict[str, Any] = self.fields.model_dump()
        for path, (make, part, supplied) in self._things.items():
            settings = complete(make, part.settings, f"{path} {part.name}", given=supplied)
            place = content
            for step in path.split(".")[:-1]:
                place = place[step]
            last: Any = path.split(".")[-1]
            place[int(last) if isinstance(place, list) else last].update(settings)
        for number, score in enumerate(content["scores"]):
            score.update(self.score_settings(number))
        for steps in ("augmentation", "preparation"):
            content[steps] = Preparation(content[steps]).to_json()["steps"]
        resolved: dict[str, Any] = plain(content)
        return resolved

    @property
    def sha256(self) -> str:
        """The SHA-256 of `resolved` as JSON with sorted keys."""
        return hashlib.sha256(json.dumps(self.resolved(), sort_keys=True).encode()).hexdigest()

    def to_yaml(self) -> str:
        """The recipe as a file."""
        return yaml.safe_dump(self.fields.model_dump(), sort_keys=False, allow_unicode=True)

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Name, as evaluations have it, to one of each score."""
        scores = [self.score(number) for number in range(len(self.fields.scores))]
        return {score.name: score for score in scores}

    def score(self, number: int) -> Score:
        """A fresh score.

        Args:
            number: Which one of the recipe's.
        """
        return SCORES[self.fields.scores[number].name](**self.score_settings(number))

    def score_settings(self, number: int) -> dict[str, Any]:
        """All settings of a score; its output and target are the loss's where it does not state others."""
        part, loss = self.fields.scores[number], self.fields.loss
        parameters = inspect.signature(SCORES[part.name]).parameters
        inherited = {"output": loss.output, "target": loss.target} if "target" in parameters else {}
        usual = {name: value for name, value in inherited.items() if name in parameters and value is not None}
        return complete(SCORES[part.name], {**usual, **part.settings}, f"score {part.name}")

    # What its parts name

    @cached_property
    def _things(self) -> dict[str, tuple[Any, NamedPart, tuple[str, ...]]]:
        """Path of each named part to what makes it, the part, and the arguments that come from elsewhere."""
        fields = self.fields
        makers: dict[str, tuple[Any, NamedPart, tuple[str, ...]]] = {}
        if not is_file(fields.network.name):
            makers["network"] = (networks[fields.network.name], fields.network, ("seed",))
        supplied = ("part",) if fields.data.split.name in ("parts", "from-last") else ()
        makers["data"] = (datasets[fields.data.name], fields.data, supplied)
        makers["data.split"] = (SPLITS[fields.data.split.name], fields.data.split, ("make",))
        makers["sampler"] = (sampler_named(fields.sampler.name), fields.sampler, GIVEN)
        rule = optimizers[fields.optimizer.name]
        makers["optimizer"] = (rule, fields.optimizer, ())
        if (schedule := fields.optimizer.schedule) is not None:
            makers["optimizer.schedule"] = (SCHEDULES[schedule.name], schedule, ("lr", "steps"))
        for number, part in enumerate(fields.chain):
            makers[f"chain.{number}"] = (CHAIN[part.name], part, ())
        return makers

    def _check(self) -> None:
        fields = self.fields
        if not is_file(fields.network.name):
            networks.require(fields.network.name)
        elif fields.network.settings:
            raise InvalidArgument(f"settings {fields.network.settings} beside the file {fields.network.name}", "none")
        datasets.require(fields.data.name)
        samplers.require(fields.sampler.name)
        optimizers.require(fields.optimizer.name)
        schedule = fields.optimizer.schedule
        _check_known("split", fields.data.split.name, SPLITS)
        _check_known("loss", fields.loss.name, LOSSES)
        for kind, names, choices in (
            ("schedule", [] if schedule is None else [schedule.name], SCHEDULES),
            ("part of a chain", [part.name for part in fields.chain], CHAIN),
            ("score", [part.name for part in fields.scores], SCORES),
            ("scheme", [] if fields.initialization is None else [fields.initialization.scheme], SCHEMES),
        ):
            for name in names:
                _check_known(kind, name, choices)
        for framework in fields.frameworks:  # which of them are installed here is no matter of the recipe
            if framework.partition(":")[0] not in frameworks and ":" not in framework:
                raise UnknownName(frameworks.kind, framework, frameworks)
        self._check_rate()
        Preparation([*fields.augmentation, *fields.preparation])
        for path, (make, part, supplied) in self._things.items():
            complete(make, part.settings, f"{path} {part.name}", given=supplied)
        self._check_scores()

    def _check_rate(self) -> None:
        fields = self.fields
        if (schedule := fields.optimizer.schedule) is None:
            return
        if "lr" not in fields.optimizer.settings:
            raise InvalidArgument(
                f"the schedule {schedule.name} of an optimizer without lr", "the rate to change: optimizer.lr=…"
            )
        if "steps" not in inspect.signature(SCHEDULES[schedule.name]).parameters and schedule.steps is not None:
            raise InvalidArgument(f"steps={schedule.steps} of the schedule {schedule.name}", "no steps: it has no end")

    def _check_scores(self) -> None:
        if len(self.scores) < len(self.fields.scores):
            raise InvalidArgument(f"two scores of the recipe {self.name!r} are called alike", "each score once")
        for name in self.fields.target:
            if name not in self.scores:
                raise InvalidArgument(
                    f"a target for {name!r}, which the recipe {self.name!r} does not score",
                    f"one of {', '.join(self.scores)}",
                    nearest(name, self.scores),
                )

    def __repr__(self) -> str:
        return f"Recipe({self.name!r}, {self.fields.network.name} on {self.fields.data.name})"


def is_file(network: str) -> bool:
    """Whether what a recipe calls its network is a file."""
    return network.endswith(".onnx")


def _check_known(kind: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise UnknownName(kind, name, choices)


_FOLDER = Path(__file__).parent

RECIPES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""Names of the recipes that ship."""


def load_recipe(source: str | Path, *assignments: str) -> Recipe:
    """Read a recipe.

    Args:
        source: The name of one that ships (`RECIPES`), or a YAML file.
        *assignments: What to change in it; see `Recipe.changed`.

    Raises:
        InvalidArgument: There is none of this name, the file cannot be read, or it is no recipe.
        UnknownName: It names something that there is not.

    Example:
        >>> recipe = load_recipe("digits", "epochs=3")
        >>> recipe.name, recipe.fields.epochs, recipe.fields.target
        ('digits', 3, {'accuracy': 0.97})
    """
    path = _FOLDER / f"{source}.yaml" if source in RECIPES else Path(source)
    if path.suffix not in (".yaml", ".yml"):
        choices = f"one of {', '.join(RECIPES)}, or a file that ends in .yaml"
        raise InvalidArgument(f"no recipe {str(source)!r}", choices, nearest(str(source), RECIPES))
    try:
        content = parsed(path.read_text(encoding="utf-8"), f"the recipe {path}")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the recipe {path} cannot be read: {reason}", "a YAML file in UTF-8") from error
    if content is None:
        raise InvalidArgument(f"the recipe {path} is empty", "network, loss, data and scores at least")
    return Recipe(assigned(content, assignments) if isinstance(content, Mapping) else content, path.stem)
