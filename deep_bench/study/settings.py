"""The settings of what checks and measures, each stated once: name, type with its range, default, help.

Options of the command line (`deep_bench.cli.verb.settings_options`), fields of recipes (`deep_bench.recipes.levels`), what a
record has of them and the words that refuse a value follow from here. The keywords of public functions are written out where
they are read; `tests/cli/test_settings.py` holds them against this file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from deep_bench.errors import InvalidArgument
from deep_bench.measure.units import read_seconds

Checking = Literal["auto", "quick", "full", "off"]
"""How hard to look whether results are right."""

Seed: TypeAlias = Annotated[int, Field(ge=0)]
Count: TypeAlias = Annotated[int, Field(gt=0)]
Word: TypeAlias = Annotated[str, Field(min_length=1)]
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]

Seconds: TypeAlias = Annotated[float, BeforeValidator(read_seconds)]
"""A duration: a number of seconds, or a text such as ``5min``."""


class SettingsModel(BaseModel):
    """Base of settings. A field's description is the help of its option; of one that is true by default, of ``--no-…``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def as_options(self) -> dict[str, Any]:
        """The settings as a record keeps them."""
        return self.model_dump(mode="json")


class Keywords(BaseModel):
    """What makes settings those of a function's keywords: a value out of range is refused as an argument is.

    Raises:
        InvalidArgument: A value of another type, or out of range.

    Example:
        >>> NetworkSettings(check="off", budget=-1.0)
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: budget=-1.0
        Expected: seconds, above 0
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            name, value = str(fault["loc"][0]), fault["input"]
            expected = range_in_words(type(self).model_fields[name], value)
            raise InvalidArgument(f"{name}={value!r}", expected) from None


def least(setting: FieldInfo) -> int | None:
    """The smallest whole number that a setting may be, if it has one.

    Example:
        >>> least(NetworkSettings.model_fields["launches"]), least(NetworkSettings.model_fields["budget"])
        (1, None)
    """
    if setting.annotation is not int:
        return None
    bounds = [getattr(bound, "ge", getattr(bound, "gt", -1) + 1) for bound in setting.metadata]
    return max(bounds, default=None)


def is_duration(setting: FieldInfo) -> bool:
    """Whether a setting is a number of seconds."""
    return any(isinstance(part, BeforeValidator) and part.func is read_seconds for part in setting.metadata)


def range_in_words(setting: FieldInfo, value: object) -> str:
    """What a setting may be, for one who gave it a value that it may not have."""
    kind: Any = setting.annotation
    if choices := get_args(kind):
        return f"one of {', '.join(choices)}"
    if kind is bool:
        return "True or False"
    if isinstance(value, bool) or not isinstance(value, kind | int):
        return f"a number of type {kind.__name__}"
    if kind is int:
        return f"a whole number of at least {least(setting)}"
    return "seconds, above 0" if is_duration(setting) else "a share above 0 and below 1, such as 0.01"


class MeasurementSettings(SettingsModel):
    """How systems are checked and measured, whatever they compute.

    Attributes:
        seed: Of inputs, order and estimates; 0 by default.
        budget: Time for measuring; 20 s by default.
        launches: Fresh processes, so many times; 1 by default.
        ci_width: Half-width of the interval over the median at which measuring ends; 0.01 by default.
        check: How hard to look whether results are right; ``auto`` by default.
        twin: Whether one framework is measured twice, as an A/A pair; so by default.
    """

    seed: Seed = 0
    budget: Seconds = Field(default=20.0, description="Time for measuring.")
    launches: Count = Field(default=1, description="Fresh processes, so many times.")
    ci_width: Share = Field(default=0.01, description="Half-width of the interval over the median.")
    check: Checking = "auto"
    twin: bool = Field(default=True, description="Leave the A/A pair out.")


class NetworkSettings(Keywords, MeasurementSettings):
    """Of a run of a network: how to check and measure.

    ``check`` is ``"quick"`` (node replay and 4 noisy evaluations), ``"full"`` (16), ``"off"`` (no verdict), or ``"auto"``:
    full where one evaluation of the reference takes under a second, else quick. The budget is divided among the launches.

    Attributes:
        in_process: Time everything in this process, for a debugger; the record says so.
    """

    in_process: bool = Field(default=False, description="Start no processes: for a debugger.")
