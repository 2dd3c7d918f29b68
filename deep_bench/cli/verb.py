"""What every verb refuses before it begins: an option that is given twice, and an output that is one of its own inputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from deep_bench.cli.options import FileToWrite, Size, check_files


class Verb(click.Command):
    """A command whose options that take one value are given once, and whose outputs are no files that it reads.

    Example:
        >>> @click.command("count", cls=Verb)
        ... @click.option("--batch", type=int)
        ... def count(batch):
        ...     click.echo(batch)
        >>> from click.testing import CliRunner
        >>> CliRunner().invoke(count, ["--batch", "2", "--batch", "3"]).exit_code
        2
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and check the values of all options together."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        _check_once(order)
        remaining = super().parse_args(ctx, args)
        for param in self.params:
            value = ctx.params.get(str(param.name))
            if isinstance(param.type, Size):
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
