"""``Recipe``: all that a training run is made from."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import yaml
from pydantic import ValidationError

from deep_bench import datasets, frameworks, networks, optimizers, samplers
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.initial import SCHEMES
from deep_bench.training.networks import LOSSES
from deep_bench.training.preparation import Preparation
from deep_bench.training.recipes.assignment import assigned
from deep_bench.training.recipes.parts import CHAIN, SCHEDULES, SCORES, SPLITS
from deep_bench.training.recipes.refusal import nearest, refusal
from deep_bench.training.recipes.samplers import GIVEN, sampler_named
from deep_bench.training.recipes.schema import Named, RecipeModel
from deep_bench.training.recipes.settings import complete, plain
from deep_bench.training.scores import Score


class Recipe:
    """A training run as data: network, data, optimizer, what is evaluated, and when it is good enough.

    Fields are those of `deep_bench.training.recipes.schema.RecipeModel`, as attributes of ``fields``.

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
    def _things(self) -> dict[str, tuple[Any, Named, tuple[str, ...]]]:
        """Path of each named part to what makes it, the part, and the arguments that come from elsewhere."""
        fields = self.fields
        makers: dict[str, tuple[Any, Named, tuple[str, ...]]] = {}
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
        _known("split", fields.data.split.name, SPLITS)
        _known("loss", fields.loss.name, LOSSES)
        for kind, names, choices in (
            ("schedule", [] if schedule is None else [schedule.name], SCHEDULES),
            ("part of a chain", [part.name for part in fields.chain], CHAIN),
            ("score", [part.name for part in fields.scores], SCORES),
            ("scheme", [] if fields.initialization is None else [fields.initialization.scheme], SCHEMES),
        ):
            for name in names:
                _known(kind, name, choices)
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


def _known(kind: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise UnknownName(kind, name, choices)
