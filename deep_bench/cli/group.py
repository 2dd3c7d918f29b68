"""``Subcommands``: a verb with verbs of its own, each imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click


class Subcommands(click.Group):
    """Imports a subcommand's module when it is used, so that `--help` is quick.

    Args:
        name: The verb's.
        table: Name of each subcommand to where it is (``"module:attribute"``) and what it does, in one line.
        help_text: What the verb is for.

    Example:
        >>> group = Subcommands("tell", {"list": ("deep_bench.cli.list:command", "Frameworks.")}, "Tell something.")
        >>> group.list_commands(click.Context(group))
        ['list']
    """

    def __init__(self, name: str, table: Mapping[str, tuple[str, str]], help_text: str) -> None:
        super().__init__(name, help=help_text, context_settings={"help_option_names": ["-h", "--help"]})
        self._table = dict(sorted(table.items()))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """The names, sorted."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand of this name, imported now; ``None`` if there is none."""
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])
