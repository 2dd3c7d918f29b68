"""What verbs are made of: the command that refuses contradictions, the types of its options.

And verbs with verbs of their own. Options are durations, sizes, systems, files to write, and labels by which records are
chosen.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.errors import InvalidArgument

if TYPE_CHECKING:
    from deep_bench.results import Results
    from deep_bench.study.settings import SettingsModel

_FILES_KEY = "deep_bench.cli.files"
_PICTURES = (".eps", ".jpg", ".jpeg", ".pdf", ".png", ".svg", ".webp")


class Spelled(click.ParamType[Any]):
    """What is written as a text that a function reads.

    Args:
        name: As the help shows it.
        read: Gives the value; ``ValueError`` if the text is none.
        advice: What stands behind such a text in the message.

    Example:
        >>> SIZE.convert("seq=128", None, None), SECONDS.convert(".5m", None, None)
        (('seq', 128), 30.0)
    """

    def __init__(self, name: str, read: Callable[[str], Any], advice: str) -> None:
        self.name, self._read, self._advice = name, read, advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a text; a default may be a value already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError:
            self.fail(f"{value!r}{self._advice}", param, ctx)


def refuse_unless(right: object) -> None:
    """Say that a text is none that can be read, for `Spelled`."""
    if not right:
        raise ValueError


def whole_numbers(text: str, least: int = 0) -> tuple[int, ...]:
    """Numbers between commas."""
    refuse_unless(all(part.strip().isdecimal() and int(part) >= least for part in text.split(",")))
    return tuple(map(int, text.split(",")))


def _seconds(text: str) -> float:
    from deep_bench.measure.units import SCALES, read_scaled

    return read_scaled(text, {"": 1.0, **SCALES["s"]})


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    refuse_unless(name and size.isdecimal())
    return name, int(size)


def _sweep(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    refuse_unless(name and all(size.isdecimal() for size in sizes.split(",")))
    return name, whole_numbers(sizes)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    refuse_unless(name and equals)
    return name, value


def _share(text: str) -> float:
    return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)


SECONDS = Spelled("seconds", _seconds, " is no duration: write 20s, 500ms or 2m")
SIZE = Spelled("dimension=size", _size, ": write a dimension and its size, such as seq=128")
SWEEP = Spelled("dimension=size,size,…", _sweep, ": write a dimension and its sizes, such as batch=1,8,64")
SHARE = Spelled("share", _share, " is no share: write 2% or 0.02")


class FileToWrite(click.ParamType[Path]):
    """A file that is written in the end, refused in the beginning if it cannot be.

    Args:
        stem: Whether other names may be made from it, which the verb then checks itself (`check_files`).
    """

    name = "path"

    def __init__(self, *, stem: bool = False) -> None:
        self.stem = stem

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path, and see that a file can be written there that no other option names."""
        path = Path(value)
        if fault := unwritable(path):
            self.fail(fault, param, ctx)
        if ctx is not None and param is not None:
            writers = ctx.meta.setdefault(_FILES_KEY, {})
            option = writers.setdefault(path.resolve(), param.opts[0])
            if option != param.opts[0]:
                self.fail(f"{path} is what {option} writes: name another file", param, ctx)
        return path


class PictureToWrite(FileToWrite):
    """The same for a picture, whose format its name tells."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path with a suffix that says the format, and see that there is something to draw with."""
        path = super().convert(value, param, ctx)
        if path.suffix.lower() not in _PICTURES:
            self.fail(f"{path} is no picture: write a name that ends in one of {', '.join(_PICTURES)}", param, ctx)
        if importlib.util.find_spec("matplotlib") is None:
            self.fail(f"{path} needs matplotlib, which is not installed: pip install 'deep-bench[report]'", param, ctx)
        return path


def unwritable(path: Path) -> str:
    """Why no file can be written there, with what to do; empty if one can.

    A file is tried beside it, as `deep_bench.records.store.replace` writes one.
    """
    if path.is_dir():
        return f"{path} is a folder: name a file"
    if not path.parent.is_dir():
        missing = "is no folder" if path.parent.exists() else "does not exist"
        return f"{path} cannot be written: {path.parent} {missing}; create it, or name another"
    if path.exists() and not path.is_file():
        return f"{path} is no regular file: name another"
    if path.exists() and not os.access(path, os.W_OK):
        return f"{path} is read-only: name another file"
    trial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}; name another file"
    return ""


def check_files(paths: Sequence[Path], option: str) -> None:
    """See that files can be written there, and that none of them is one that the command reads.

    Args:
        paths: What an option names, or what is made from it.
        option: As it is written.

    Raises:
        BadParameter: One cannot be, or is an input.
    """
    context = click.get_current_context(silent=True)
    for path in paths:
        if fault := unwritable(path):
            raise click.BadParameter(fault, param_hint=option)
        if path.exists() and context is not None and (read := _read_as(path, context)):
            raise click.BadParameter(f"{path} is {read}: name another file", param_hint=option)


def _read_as(path: Path, context: click.Context) -> str:
    """What a file is to the command that is about to run, if that reads it, whatever the two names of it; else nothing."""
    for param in context.command.params:
        if isinstance(param.type, FileToWrite):
            continue
        value = context.params.get(str(param.name))
        for argument in value if isinstance(value, tuple) else (value,):
            for name in _files_in(argument):
                description = (
                    f"read as {param.opts[0]}" if isinstance(param, click.Option) else f"the {param.human_readable_name}"
                )
                if path.samefile(name):
                    return f"{description} of this command"
                if name.suffix == ".onnx" and _holds_data(name, path):
                    return f"where {name} has its tensors"
    return ""


def _files_in(value: object) -> list[Path]:
    """The file that a value names, alone (``in.npz``) or with what is meant in it (``kernels.py:Gelu``), if it is there."""
    if not isinstance(value, str | Path):
        return []
    return [file for file in map(Path, {str(value), str(value).rpartition(":")[0]}) if _is_file(file)]


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that cannot be one is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _holds_data(network: Path, path: Path) -> bool:
    """Whether the external data of a network are in this file; what is no network holds none, which its reader says."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(network, format="protobuf", load_external_data=False)
    except (DecodeError, UnicodeDecodeError, ValueError, OSError):
        return False
    locations = {entry.value for t in _external(proto) for entry in t.external_data if entry.key == "location"}
    return any(_is_file(data) and path.samefile(data) for data in (network.parent / location for location in locations))


def _external(proto: Any) -> list[Any]:
    """The tensors of a network that are in other files."""
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    return [tensor for tensor in _get_all_tensors(proto) if uses_external_data(tensor)]


def finish(*, ok: bool, interrupted: bool = False) -> NoReturn:
    """Exit with the status that says whether all was right, or that a run was interrupted, which is told."""
    if interrupted:
        click.echo("deep-bench: interrupted", err=True)
    sys.exit(INTERRUPTED if interrupted else 0 if ok else FAILED)


def one_each(path: Path, systems: Sequence[str]) -> list[Path]:
    """A file for each system: the one that was named if there is one system, else names with theirs, each different.

    Example:
        >>> [file.name for file in one_each(Path("p.png"), ["torch", "torch:threads=1"])]
        ['p-torch.png', 'p-torch-threads-1.png']
    """
    if len(systems) == 1:
        return [path]
    stems = [f"{path.stem}-{re.sub(r'[^0-9A-Za-z]', '-', system)}" for system in systems]
    numbered = [f"{stem}-{i + 1}" if stems.count(stem) > 1 else stem for i, stem in enumerate(stems)]
    return [path.with_stem(stem) for stem in numbered]


def check_systems(systems: Sequence[str]) -> None:
    """See that all systems exist and each is asked for once, before minutes are spent on the first.

    Raises:
        UnknownName, FrameworkMissing: As `Variant.parse`.
        InvalidArgument: One comes twice; the order of its options makes no difference.
    """
    from deep_bench.variant import Variant

    visited: dict[Any, str] = {}
    for system in systems:
        variant = Variant.parse(system)
        key = variant.framework, variant.environment, tuple(sorted(variant.options.items()))
        if key in visited:
            raise InvalidArgument(f"--on {visited[key]} and --on {system}", "each system once")
        visited[key] = system


class Verb(click.Command):
    """A command whose options that take one value are given once, and whose outputs are no files that it reads.

    Each shows tracebacks with ``--debug``.

    Example:
        >>> @click.command("count", cls=Verb)
        ... @click.option("--batch", type=int)
        ... def count(batch):
        ...     click.echo(batch)
        >>> from click.testing import CliRunner
        >>> CliRunner().invoke(count, ["--batch", "2", "--batch", "3"]).exit_code
        2
    """

    def __init__(self, *, callback: Callable[..., Any], **settings: Any) -> None:
        super().__init__(callback=callback, **settings)
        passed = "debug" in inspect.signature(callback).parameters  # to others it is of no use: `main` looks for it
        debug = click.Option(["--debug"], is_flag=True, help="Show tracebacks.", expose_value=passed)
        self.params = [*self.params, debug]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and check the values of all options together."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        _check_once(order)
        remaining = super().parse_args(ctx, args)
        for param in self.params:
            value = ctx.params.get(str(param.name))
            if param.type is SIZE:
                _check_sizes(param, value or ())
            elif isinstance(param.type, FileToWrite) and not param.type.stem and isinstance(value, Path):
                check_files([value], param.opts[0])
        return remaining


def _check_once(order: list[click.Parameter]) -> None:
    """Refuse an option with one value that comes twice: one of the two would be lost without a word."""
    for param, count in Counter(order).items():
        flag = isinstance(param, click.Option) and (param.is_flag or param.count)
        if count > 1 and isinstance(param, click.Option) and not (param.multiple or flag):
            raise click.UsageError(f"{param.opts[0]} is given {count} times: give it once")


def _check_sizes(param: click.Parameter, sizes: tuple[tuple[str, int], ...]) -> None:
    for name, count in Counter(name for name, _ in sizes).items():
        if count > 1:
            values = ", ".join(str(size) for key, size in sizes if key == name)
            raise click.BadParameter(f"{name} is given {count} times ({values}): give each once", param_hint=param.opts[0])


class Subcommands(click.Group):
    """Imports a subcommand's module when it is used, so that `--help` is quick.

    Args:
        name: The verb's.
        table: Name of each subcommand, which is one of the verb's module, to what it does, in one line.
        help_text: What the verb is for.

    Example:
        >>> group = Subcommands("recipe", {"run": "Measure all cells."}, "State an experiment as a file.")
        >>> context = click.Context(group)
        >>> group.list_commands(context), group.get_command(context, "run").name
        (['run'], 'run')
    """

    def __init__(self, name: str, table: Mapping[str, str], help_text: str) -> None:
        super().__init__(name, help=help_text, context_settings={"help_option_names": ["-h", "--help"]})
        self._table = dict(sorted(table.items()))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """The names, sorted."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand of this name, imported now; ``None`` if there is none."""
        if cmd_name not in self._table:
            return None
        values = vars(import_module(f"deep_bench.cli.{self.name}")).values()
        return next(value for value in values if isinstance(value, click.Command) and value.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))


def settings_options(settings: type[SettingsModel], *first: str, only: bool = False) -> Callable[[Any], Any]:
    """The options of a verb that are settings: their names, types, ranges, defaults and helps.

    Args:
        settings: States them.
        first: Those that come first, in this order; others follow in theirs.
        only: Leave others out.

    Example:
        >>> from deep_bench.study.settings import NetworkSettings
        >>> @click.command("measure")
        ... @settings_options(NetworkSettings, "budget", "twin", only=True)
        ... def measure(budget, twin):
        ...     click.echo(f"{budget} {twin}")
        >>> from click.testing import CliRunner
        >>> CliRunner().invoke(measure, ["--budget=2m", "--no-twin"]).output
        '120.0 False\\n'
    """
    from deep_bench.study.settings import is_duration, least

    options = []
    for name in first if only else dict.fromkeys([*first, *settings.model_fields]):
        setting = settings.model_fields[name]
        option, default = f"--{name.replace('_', '-')}", setting.default
        shown: dict[str, Any] = {"help": setting.description, "default": default, "show_default": True}
        if setting.annotation is bool:
            option = option.replace("--", "--no-", 1) if default else option
            shown |= {"is_flag": True, "flag_value": not default, "show_default": False}
        elif choices := get_args(setting.annotation):
            shown["type"] = click.Choice(choices)
        elif is_duration(setting):
            shown |= {"type": SECONDS, "default": f"{default:g}s" if default % 60 else f"{default / 60:g}m"}
        elif (smallest := least(setting)) is not None:
            shown["type"] = click.IntRange(min=smallest)
        options.append(click.option(option, name, **shown))

    def with_options(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


WHERE = click.option(
    "--where",
    multiple=True,
    type=Spelled("label=value", _label, ": write a label and a value, such as system=torch"),
    metavar="LABEL=VALUE",
    help="Only results with it; * stands for any characters. Repeat for several labels, or for several values of one.",
)


def gather_chosen(paths: Sequence[Path], where: Sequence[tuple[str, str]]) -> Results:
    """Read records, with a bar on a terminal, and choose among them.

    Args:
        paths: Files and folders.
        where: Labels and values; several values of one label: any of them.
    """
    from deep_bench.measure.progress import Bars
    from deep_bench.results import gather

    bars = Bars(delay=1.0)

    def progress(done: int, total: int) -> None:
        if done == 1:
            bars.phase("reading records", total, "files")
        bars.advance()

    try:
        results = gather(*paths, progress=progress)
    finally:
        bars.close()
    filters: dict[str, list[str]] = {}
    for name, value in where:
        filters.setdefault(name, []).append(value)
    return results.where(**filters)
