"""What every communicator must do: one small check each, called by all ranks at the same time.

A check takes a rank's communicator and raises ``AssertionError`` with what it found, after all of its messages are through,
so that a fault on one rank leaves no other waiting. `COMMUNICATOR_CHECKS` lists them by name.
"""

from __future__ import annotations

from collections.abc import Callable

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.testing.communicator_checks import collectives, exact, messages

Check = Callable[[Communicator], None]

COMMUNICATOR_CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        collectives.reduces,
        collectives.moves,
        collectives.reduces_and_scatters,
        collectives.gathers_different_lengths,
        collectives.takes_any_layout,
        collectives.takes_arrays_without_dimensions,
        collectives.takes_empty_arrays,
        collectives.cuts_long_arrays,
        messages.keeps_tags_and_order,
        messages.tells_distant_tags_apart,
        messages.keeps_every_bit,
        messages.waits_for_everyone,
        messages.receives_from_anyone,
        messages.goes_on_meanwhile,
        collectives.works_in_place,
        exact.sums_every_bit,
        exact.picks_and_multiplies_every_bit,
        exact.rounds_to_nearest,
        exact.keeps_what_is_not_finite,
        exact.agrees_bit_by_bit,
        messages.carries_middling_arrays,
        messages.carries_large_arrays,
        collectives.splits,
        messages.exchanges,
        messages.refuses_what_is_wrong,
    )
}
