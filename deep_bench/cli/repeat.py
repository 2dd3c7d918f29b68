"""``deep-bench repeat``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from deep_bench.cli import FAILED
from deep_bench.cli.verb import SECONDS, SHARE, Verb

_OF_PIP = (
    "Collecting ",
    "Processing ",
    "Downloading ",
    "Using cached ",
    "Requirement already ",
    "Looking in ",
    "━",
    "Installing ",
)
"""What pip says of each of a hundred packages."""


@click.command("repeat", cls=Verb)
@click.argument("source", metavar="BUNDLE|FOLDER|RECORD", type=click.Path(path_type=Path, exists=True))
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), default=Path("repeated"), show_default=True,
              help="Where it is unpacked and run; a new folder.")  # fmt: skip
@click.option("--here", is_flag=True, help="In this environment, not in a clean one from the lock.")
@click.option("--allow-code", is_flag=True, help="Run code that came with the bundle.")
@click.option("--margin", type=SHARE, default=0.05, show_default="5%", help="A difference of figures that counts as none.")
@click.option("--limit", type=SECONDS, help="End it after so long: 10min.")
def command(
    source: Path,
    into: Path,
    here: bool,
    allow_code: bool,
    margin: float,
    limit: float | None,
) -> None:
    """Run a bundle or a record again, in a clean environment from its lock, and compare: the same bits, verdicts, figures?

    To build the environment, pip installs packages by the lock's names and versions, which runs their code.

    Exit status: 0 repeated, 1 not repeated or cannot tell, 2 for what is no bundle or cannot be run.
    """
    from deep_bench.recipes.repetition import keep_repetition, repeat

    def tell(text: str) -> None:
        if not text.lstrip().startswith(_OF_PIP):
            click.echo(text, err=True)

    outcome = repeat(source, into, here=here, allow_code=allow_code, margin=margin, limit_s=limit, tell=tell)
    file = keep_repetition(outcome)
    click.echo(outcome.report())
    click.echo(f"kept as evidence for deep-bench badges: {file}")
    sys.exit(0 if outcome.verdict.startswith("repeated") else FAILED)
