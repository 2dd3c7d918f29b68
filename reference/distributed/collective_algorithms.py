"""The algorithms of collective operations, spelled out as programs of `deep_bench.reference.distributed.loggp`.

Each gets its rank, the number of ranks and its own array, and returns what the operation gives it. Where an array is cut, it
has a row for each rank.

Source:
    Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, IJHPCA 19 (2005); Chan,
    Heimlich, Purkayastha and van de Geijn, *Collective communication: theory, practice, and experience*, Concurrency and
    Computation 19 (2007).
"""

from __future__ import annotations

import numpy as np

from deep_bench.reference.distributed.loggp import Combine, Program, Receive, Send


def linear_broadcast(rank: int, size: int, x: np.ndarray) -> Program:
    """Rank 0 sends to one after the other."""
    if rank > 0:
        return (yield Receive(0))
    for peer in range(1, size):
        yield Send(peer, x)
    return x


def binomial_broadcast(rank: int, size: int, x: np.ndarray) -> Program:
    """From the rank without the lowest bit; on to those with a lower bit, the highest first."""
    bit = _lowest_bit(rank, size)
    if rank > 0:
        x = yield Receive(rank - bit)
    while bit := bit // 2:
        if rank + bit < size:
            yield Send(rank + bit, x)
    return x


def chain_broadcast(rank: int, size: int, x: np.ndarray, pieces: int) -> Program:
    """From rank to rank, piece by piece."""
    parts = []
    for piece in np.split(x, pieces):
        if rank > 0:
            piece = yield Receive(rank - 1)
        if rank + 1 < size:
            yield Send(rank + 1, piece)
        parts.append(piece)
    return np.concatenate(parts)


def scatter_allgather_broadcast(rank: int, size: int, x: np.ndarray) -> Program:
    """A row for each rank, then around the ring."""
    row = yield from binomial_scatter(rank, size, x)
    return (yield from ring_allgather(rank, size, row))


def linear_scatter(rank: int, size: int, x: np.ndarray) -> Program:
    """Rank 0 sends its row to each."""
    if rank > 0:
        return (yield Receive(0))
    for peer in range(1, size):
        yield Send(peer, x[peer])
    return x[0]


def binomial_scatter(rank: int, size: int, x: np.ndarray) -> Program:
    """Down the tree of `binomial_broadcast`, to each child the rows of all ranks below it."""
    bit = _lowest_bit(rank, size)
    rows = (yield Receive(rank - bit)) if rank > 0 else x
    while bit := bit // 2:
        if rank + bit < size:
            yield Send(rank + bit, rows[bit : 2 * bit])
    return rows[0]


def linear_gather(rank: int, size: int, x: np.ndarray) -> Program:
    """All send to rank 0."""
    if rank > 0:
        yield Send(0, x)
        return None
    rows = [x]
    for peer in range(1, size):
        rows.append((yield Receive(peer)))
    return np.stack(rows)


def binomial_gather(rank: int, size: int, x: np.ndarray) -> Program:
    """Up the tree of `binomial_broadcast`, from each child the rows of all ranks below it."""
    rows, bit = x[np.newaxis], 1
    while bit < size and not rank & bit:
        if rank + bit < size:
            rows = np.concatenate([rows, (yield Receive(rank + bit))])
        bit *= 2
    if rank > 0:
        yield Send(rank - bit, rows)
        return None
    return rows


def linear_reduce(rank: int, size: int, x: np.ndarray) -> Program:
    """All send to rank 0, which adds up."""
    if rank > 0:
        yield Send(0, x)
        return None
    for peer in range(1, size):
        x = x + (yield Receive(peer))
        yield Combine(x.nbytes)
    return x


def binomial_reduce(rank: int, size: int, x: np.ndarray) -> Program:
    """Up the tree of `binomial_broadcast`, added up on the way."""
    bit = 1
    while bit < size and not rank & bit:
        if rank + bit < size:
            x = x + (yield Receive(rank + bit))
            yield Combine(x.nbytes)
        bit *= 2
    if rank > 0:
        yield Send(rank - bit, x)
        return None
    return x


def tree_allreduce(rank: int, size: int, x: np.ndarray) -> Program:
    """`binomial_reduce`, then `binomial_broadcast`."""
    total = yield from binomial_reduce(rank, size, x)
    return (yield from binomial_broadcast(rank, size, total))


def ring_reduce_scatter(rank: int, size: int, x: np.ndarray) -> Program:
    """Row r begins on rank r + 1 and goes around, each rank adding its own, until it is on rank r."""
    carried = x[(rank - 1) % size]
    for step in range(size - 1):
        yield Send((rank + 1) % size, carried)
        row = x[(rank - 2 - step) % size]
        carried = row + (yield Receive((rank - 1) % size))
        yield Combine(row.nbytes)
    return carried


def ring_allgather(rank: int, size: int, x: np.ndarray) -> Program:
    """All rows go around."""
    rows, carried = {rank: x}, x
    for step in range(size - 1):
        yield Send((rank + 1) % size, carried)
        carried = yield Receive((rank - 1) % size)
        rows[(rank - 1 - step) % size] = carried
    return np.stack([rows[r] for r in range(size)])


def ring_allreduce(rank: int, size: int, x: np.ndarray) -> Program:
    """`ring_reduce_scatter`, then `ring_allgather`."""
    row = yield from ring_reduce_scatter(rank, size, x)
    return (yield from ring_allgather(rank, size, row))


def doubling_allreduce(rank: int, size: int, x: np.ndarray) -> Program:
    """Whole vectors between ranks 1, 2, 4 … apart, among as many ranks as are a power of two."""
    return (yield from _folded(rank, size, x, _doubling))


def rabenseifner_allreduce(rank: int, size: int, x: np.ndarray) -> Program:
    """Halves, quarters … and back, among as many ranks as are a power of two; the length of x must be a multiple of that."""
    return (yield from _folded(rank, size, x, _rabenseifner))


def _folded(rank: int, size: int, x: np.ndarray, among: object) -> Program:
    """The first ranks beyond a power of two, in pairs, first become one: the even one hands all to the odd one beside it."""
    power = 2 ** (size.bit_length() - 1)
    beyond = size - power
    if rank < 2 * beyond and rank % 2 == 0:
        yield Send(rank + 1, x)
        return (yield Receive(rank + 1))
    if rank < 2 * beyond:
        x = x + (yield Receive(rank - 1))
        yield Combine(x.nbytes)
    ranks = [*range(1, 2 * beyond, 2), *range(2 * beyond, size)]
    x = yield from among(ranks, ranks.index(rank), x)  # type: ignore[operator]
    if rank < 2 * beyond:
        yield Send(rank - 1, x)
    return x


def _doubling(ranks: list[int], place: int, x: np.ndarray) -> Program:
    apart = 1
    while apart < len(ranks):
        partner = ranks[place ^ apart]
        yield Send(partner, x)
        x = x + (yield Receive(partner))
        yield Combine(x.nbytes)
        apart *= 2
    return x


def _rabenseifner(ranks: list[int], place: int, x: np.ndarray) -> Program:
    x, low, high = np.array(x), 0, len(x)
    apart, rounds = len(ranks) // 2, []
    while apart:
        partner, middle = ranks[place ^ apart], (low + high) // 2
        mine, theirs = ((low, middle), (middle, high)) if not place & apart else ((middle, high), (low, middle))
        yield Send(partner, x[slice(*theirs)])
        x[slice(*mine)] += yield Receive(partner)
        yield Combine(x[slice(*mine)].nbytes)
        rounds.append((partner, mine, theirs))
        (low, high), apart = mine, apart // 2
    for partner, mine, theirs in reversed(rounds):
        yield Send(partner, x[slice(*mine)])
        x[slice(*theirs)] = yield Receive(partner)
    return x


def pairwise_reduce_scatter(rank: int, size: int, x: np.ndarray) -> Program:
    """In round i: its row to the rank i further, my row from the rank i before."""
    total = x[rank]
    for step in range(1, size):
        yield Send((rank + step) % size, x[(rank + step) % size])
        total = total + (yield Receive((rank - step) % size))
        yield Combine(total.nbytes)
    return total


def halving_reduce_scatter(rank: int, size: int, x: np.ndarray) -> Program:
    """Half of the rows, a quarter …; the number of ranks is a power of two."""
    low, apart = 0, size // 2
    while apart:
        partner = rank ^ apart
        upper = bool(rank & apart)
        mine, theirs = (x[apart:], x[:apart]) if upper else (x[:apart], x[apart:])
        yield Send(partner, theirs)
        x = mine + (yield Receive(partner))
        yield Combine(x.nbytes)
        low, apart = low + apart * upper, apart // 2
    return x[0]


def doubling_allgather(rank: int, size: int, x: np.ndarray) -> Program:
    """All that is there, between ranks 1, 2, 4 … apart; the number of ranks is a power of two."""
    rows, apart = x[np.newaxis], 1
    while apart < size:
        yield Send(rank ^ apart, rows)
        received = yield Receive(rank ^ apart)
        rows = np.concatenate([received, rows] if rank & apart else [rows, received])
        apart *= 2
    return rows


def bruck_allgather(rank: int, size: int, x: np.ndarray) -> Program:
    """All that is there to the rank 1, 2, 4 … before; in the last round what it lacks. Rows begin with one's own."""
    rows = x[np.newaxis]
    while len(rows) < size:
        apart = len(rows)
        yield Send((rank - apart) % size, rows[: size - apart])
        rows = np.concatenate([rows, (yield Receive((rank + apart) % size))])
    return np.roll(rows, rank, axis=0)


def pairwise_alltoall(rank: int, size: int, x: np.ndarray) -> Program:
    """In round i: to the rank i further, from the rank i before."""
    rows = np.array(x)
    for step in range(1, size):
        yield Send((rank + step) % size, x[(rank + step) % size])
        rows[(rank - step) % size] = yield Receive((rank - step) % size)
    return rows


def bruck_alltoall(rank: int, size: int, x: np.ndarray) -> Program:
    """Block j must go j ranks further: those whose number has bit i go 2**i further in round i."""
    blocks = np.roll(x, -rank, axis=0)
    apart = 1
    while apart < size:
        moving = [j for j in range(size) if j & apart]
        yield Send((rank + apart) % size, blocks[moving])
        blocks[moving] = yield Receive((rank - apart) % size)
        apart *= 2
    return np.roll(blocks[::-1], rank + 1, axis=0)


def posted_alltoall(rank: int, size: int, x: np.ndarray) -> Program:
    """All messages at once, then all that come."""
    rows = np.array(x)
    for step in range(1, size):
        yield Send((rank + step) % size, x[(rank + step) % size])
    for step in range(1, size):
        rows[(rank - step) % size] = yield Receive((rank - step) % size)
    return rows


def ring_neighbours(rank: int, size: int, x: np.ndarray) -> Program:
    """To the ranks after and before, each once; then what they sent."""
    steps = [1] if size == 2 else [1, -1]
    for step in steps:
        yield Send((rank + step) % size, x)
    by_rank = {}
    for step in steps:
        by_rank[(rank - step) % size] = yield Receive((rank - step) % size)
    return by_rank


def dissemination_barrier(rank: int, size: int, x: np.ndarray) -> Program:
    """A message to the rank 1, 2, 4 … further; returns how many were received."""
    apart, count = 1, 0
    while apart < size:
        yield Send((rank + apart) % size, x)
        yield Receive((rank - apart) % size)
        apart, count = 2 * apart, count + 1
    return count


def window(rank: int, size: int, x: np.ndarray, messages: int, answer: np.ndarray) -> Program:  # noqa: ARG001 (two ranks)
    """Rank 0 sends a window of messages, rank 1 answers."""
    if rank == 0:
        for _ in range(messages):
            yield Send(1, x)
        return (yield Receive(1))
    for _ in range(messages):
        yield Receive(0)
    yield Send(0, answer)
    return None


def window_both_ways(rank: int, size: int, x: np.ndarray, messages: int, answer: np.ndarray) -> Program:  # noqa: ARG001
    """Both send a window of messages; then rank 1 answers."""
    for _ in range(messages):
        yield Send(1 - rank, x)
    for _ in range(messages):
        yield Receive(1 - rank)
    if rank == 0:
        return (yield Receive(1))
    yield Send(0, answer)
    return None


def _lowest_bit(rank: int, size: int) -> int:
    """Of a rank in a binomial tree; of rank 0 the power of two from which on there are no ranks."""
    return rank & -rank if rank else 2 ** (size - 1).bit_length()
