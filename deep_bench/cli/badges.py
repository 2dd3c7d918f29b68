"""``deep-bench badges``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from deep_bench.cli.verb import SHARE, Verb

_SIGNS = {"pass": "+", "fail": "-", "unknown": "?"}


@click.command("badges", cls=Verb)
@click.argument("source", metavar="BUNDLE|FOLDER", type=click.Path(path_type=Path, exists=True))
@click.option("--repeated", "repetitions", multiple=True, type=click.Path(path_type=Path, exists=True),
              help="What `deep-bench repeat` left, as evidence. Repeat for more.")  # fmt: skip
@click.option("--doi", default="", help="What an archive gave it: 10.5281/zenodo.1234567. Claimed, not verified.")
@click.option("--archive", default="", help="Where it lies for good.")
@click.option("--paper", default="", help="What it belongs to.")
@click.option("--reruns", type=click.IntRange(min=1), default=3, show_default=True, help="Asked of submissions to MLPerf.")
@click.option("--tolerance", type=SHARE, default=0.05, show_default="5%", help="Allowed to these reruns.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(
    source: Path,
    repetitions: tuple[Path, ...],
    doi: str,
    archive: str,
    paper: str,
    reruns: int,
    tolerance: float,
    as_json: bool,
) -> None:
    """Which badges of ACM a bundle has earned, check by check: pass (+), fail (-) or unknown (?), and why.

    Badges for results that other people reproduced are never given here.
    """
    from deep_bench.errors import printable
    from deep_bench.recipes.badges import Claims, badges

    claims = Claims(doi=doi, archive=archive, paper=paper)
    awards = badges(source, repetitions=repetitions, claims=claims, reruns=reruns, tolerance=tolerance)
    if as_json:
        click.echo(json.dumps([{**asdict(badge), "state": badge.state} for badge in awards], indent=1))
        return
    shown_checks: set[str] = set()
    for badge in awards:
        click.echo(f"{_SIGNS[badge.state]} {badge.name}: {badge.state}")
        for check in badge.checks:
            if check.name not in shown_checks:
                click.echo(printable(f"    {_SIGNS[check.state]} {check.name}: {' '.join(check.reason.split())}"))
        again = [check.name for check in badge.checks if check.name in shown_checks]
        if again:
            click.echo(f"    {len(again)} checks as above")
        shown_checks |= {check.name for check in badge.checks}
    for source_of in dict.fromkeys(badge.source for badge in awards):
        click.echo(f"after {source_of}")
