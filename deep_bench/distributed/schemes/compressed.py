"""Schemes that compress gradients: their largest elements, few bits for each, or low rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import SEED, WIDE, CompressingScheme, drawn, in_order, number, zeros
from deep_bench.training.optimizer import COUNT, Allowed, Arrays, one_of, setting

_WIDTHS = (1, 2, 4, 8, 16)


def width_of(largest: int) -> int:
    """The bits of a code: the fewest, among those that fill bytes without a rest, that hold numbers up to ``largest``."""
    return next(width for width in _WIDTHS if largest < 2**width)


def packed_codes(codes: NDArray[np.uint16], width: int) -> NDArray[np.uint8]:
    """Codes of so many bits each, the first in the lowest bits of the first byte.

    Example:
        >>> packed = packed_codes(np.uint16([1, 2, 3]), 4)
        >>> packed.tolist(), unpacked_codes(packed, 4, 3).tolist()
        ([33, 3], [1, 2, 3])
    """
    if width >= 8:
        return codes.astype(f"u{width // 8}").view(np.uint8)
    per_byte = 8 // width
    rows = np.zeros((-(-codes.size // per_byte), per_byte), np.uint8)
    rows.reshape(-1)[: codes.size] = codes
    return np.bitwise_or.reduce(rows << _shifts(width), axis=1)


def unpacked_codes(message: NDArray[np.uint8], width: int, count: int) -> NDArray[np.unsignedinteger]:
    """The codes again; see `packed`."""
    if width >= 8:
        return message.view(f"u{width // 8}")
    return ((message[:, None] >> _shifts(width)) & np.uint8(2**width - 1)).reshape(-1)[:count]


def _shifts(width: int) -> NDArray[np.uint8]:
    return np.arange(0, 8, width, dtype=np.uint8)


def grouped(vector: np.ndarray, group: int) -> np.ndarray:
    """A vector as rows of so many elements, the last filled up with zeros."""
    rows = -(-vector.size // group)
    if rows * group == vector.size:
        return vector.reshape(rows, group)
    padded = np.zeros((rows, group), vector.dtype)
    padded.reshape(-1)[: vector.size] = vector
    return padded


def largest(x: np.ndarray, count: int) -> NDArray[np.intp]:
    """The indices, ascending, of the ``count`` elements of the largest magnitude; among equal ones the first.

    Args:
        x: Flat, with at least ``count`` elements.
        count: How many, at least 1.

    Example:
        >>> largest(np.array([1.0, -3.0, 2.0, 3.0, -2.0]), 3).tolist()
        [1, 2, 3]
    """
    if count >= x.size:
        return np.arange(x.size)
    magnitude = np.abs(x)
    magnitude[np.isnan(magnitude)] = np.inf  # a number that is none is told to all, not kept back
    least = np.partition(magnitude, x.size - count)[x.size - count]
    above = np.flatnonzero(magnitude > least)
    equal = np.flatnonzero(magnitude == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))


_PAIRS_TAG = 601
_HEAD = np.dtype(np.int64).itemsize
_DENSE = -1


@dataclass(frozen=True, slots=True)
class Pairs:
    """An array of which only some elements are stated; the others are zero.

    Args:
        size: The number of elements.
        indices: Those of the stated ones, ascending; ``None`` where all are stated.
        values: The stated ones.
    """

    size: int
    indices: NDArray[np.integer[Any]] | None
    values: np.ndarray

    def dense(self) -> np.ndarray:
        """The whole array; shares its memory where all elements are stated."""
        if self.indices is None:
            return self.values
        array = np.zeros(self.size, self.values.dtype)
        array[self.indices] = self.values
        return array

    def smallest(self) -> Pairs:
        """The same, with all elements stated where that takes no more bytes."""
        if self.indices is None or self.indices.nbytes + self.values.nbytes < self.size * self.values.itemsize:
            return self
        return Pairs(self.size, None, self.dense())

    def plus(self, other: Pairs) -> Pairs:
        """The sum, bit for bit the same in both orders."""
        if self.indices is None and other.indices is None:
            return Pairs(self.size, None, self.values + other.values)
        if self.indices is None:
            total = self.values.copy()
            total[other.indices] += other.values
            return Pairs(self.size, None, total)
        if other.indices is None:
            return other.plus(self)
        indices = np.concatenate([self.indices, other.indices])
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], np.concatenate([self.values, other.values])[order]
        again = indices[1:] == indices[:-1]
        twice = np.flatnonzero(again)
        values[twice] += values[twice + 1]
        mask = np.concatenate([[True], ~again])[: len(indices)]
        return Pairs(self.size, indices[mask], values[mask]).smallest()


def index_type(size: int) -> np.dtype:
    """The smallest type of indices that can name each of so many elements."""
    return np.dtype(np.uint32 if size <= 2**32 else np.int64)


def sum_of_pairs(comm: Communicator, mine: Pairs) -> Pairs:
    """The sum over all ranks, bit for bit the same on all of them.

    Ranks exchange what they have with the one 1, 2, 4, … away, and add. Where their number is no power of two, those above
    the largest one hand theirs to a partner first, and get the sum from it. As soon as pairs would take more bytes than all
    elements, all elements are sent; the values are the same either way.

    Args:
        comm: The ranks.
        mine: This rank's; of the same size and element type on all.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     mine = Pairs(9, np.uint32([0, comm.rank + 1]), np.float32([1, 10]))
        ...     return sum_of_pairs(comm, mine).dense().tolist()
        >>> run_local(3, on_rank)[2]
        [3.0, 10.0, 10.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0]

    Source:
        Renggli, Ashkboos, Aghagolzadeh, Alistarh and Hoefler, *SparCML: high-performance sparse communication for machine
        learning*, SC 2019, section 5 (recursive doubling, and the switch).
    """
    total = mine.smallest()
    paired = 1 << (comm.size.bit_length() - 1)
    if comm.rank >= paired:
        comm.send(_packed_pairs(total), comm.rank - paired, _PAIRS_TAG)
        return _receive_pairs(comm, comm.rank - paired, total)
    extra = comm.rank + paired
    if extra < comm.size:
        total = total.plus(_receive_pairs(comm, extra, total))
    distance = 1
    while distance < paired:
        total = total.plus(_exchange_pairs(comm, comm.rank ^ distance, total))
        distance *= 2
    if extra < comm.size:
        comm.send(_packed_pairs(total), extra, _PAIRS_TAG)
    return total


def _packed_pairs(pairs: Pairs) -> NDArray[np.uint8]:
    """One message: how many pairs (or that all elements are there), the indices, the values."""
    count = np.array([_DENSE if pairs.indices is None else len(pairs.indices)], np.int64)
    parts = [count, *([] if pairs.indices is None else [pairs.indices]), pairs.values]
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts])


def _unpacked_pairs(message: NDArray[np.uint8], like: Pairs) -> Pairs:
    count = int(message[:_HEAD].view(np.int64)[0])
    content, dtype = message[_HEAD:], like.values.dtype
    if count == _DENSE:
        return Pairs(like.size, None, content.view(dtype))
    kind = index_type(like.size)
    indices = content[: count * kind.itemsize].copy().view(kind)
    return Pairs(like.size, indices, content[count * kind.itemsize :].copy().view(dtype))


def _room(like: Pairs) -> NDArray[np.uint8]:
    return np.empty(_HEAD + like.size * like.values.itemsize, np.uint8)


def _receive_pairs(comm: Communicator, source: int, like: Pairs) -> Pairs:
    room = _room(like)
    return _unpacked_pairs(room[: comm.recv(room, source, _PAIRS_TAG).elements], like)


def _exchange_pairs(comm: Communicator, peer: int, mine: Pairs) -> Pairs:
    room = _room(mine)
    return _unpacked_pairs(room[: comm.sendrecv(_packed_pairs(mine), peer, room, peer, _PAIRS_TAG).elements], mine)


_PART = Allowed(
    "a number above 0 and at most 1", lambda k: isinstance(k, int | float) and not isinstance(k, bool) and 0 < k <= 1
)
_BYTES = Allowed("a number of bytes above 0, or None", lambda b: b is None or (isinstance(b, int) and b > 0))


@dataclass(frozen=True)
class Sparse(CompressingScheme[A]):
    r"""Top-k with error feedback. With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples and the error
    :math:`e_i`, 0 at first,

    .. math::
        a_i = e_i + c_i, \quad s_i = \operatorname{top}_k(a_i), \quad e_i' = a_i - s_i, \quad
        x' = \operatorname{inner}(x, \sum_j s_j),

    where :math:`\operatorname{top}_k` keeps the :math:`\lceil k n \rceil` elements of the largest magnitude, among equal
    ones the first in backward order. They are added as pairs of index and value (`sum_of_pairs`), or densely where that is
    shorter, to the same values.

    Args:
        k: The part of the elements that is kept.
        bucket: Choose within each bucket of whole parameters with so many bytes; ``None`` for all together. Parameters of
            different element types are never together.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Sparse(db.optimizers["sgd"](lr=1.0), comm, k=0.5), {"w": np.zeros(2)}
        ...     w, state = rule.update({"w": np.array([2.0, comm.rank * 4.0])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].tolist(), state["residual"]["w"].tolist()
        >>> run_local(2, on_rank)
        [([-1.0, -2.0], [0.0, 0.0]), ([-1.0, -2.0], [1.0, 0.0])]

    Source:
        Alistarh, Hoefler, Johansson, Khirirat, Konstantinov and Renggli, *The convergence of sparsified gradient methods*,
        NeurIPS 2018, algorithm 1; Renggli et al., *SparCML*, SC 2019, algorithm 1.
    """

    k: float = setting(0.01, _PART)
    bucket: int | None = setting(None, _BYTES)
    _errors: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_pool", Pool(self.bucket, WIDE))

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        return {"residual": zeros(parameters, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        errors = self._errors.packed(in_order(state["residual"], contribution), xp)
        for bucket in self._pool.buckets:
            self._summed(contribution.part(bucket), errors.part(bucket))
        return {"residual": errors.native(xp)}

    def _summed(self, part: np.ndarray, error: np.ndarray) -> None:
        """Replace a contribution by the sum of what all ranks keep of theirs, and the error by what this one did not."""
        if part.size == 0:
            return
        error += part
        chosen = largest(error, ceil(self.k * part.size))
        mine = Pairs(part.size, chosen.astype(index_type(part.size)), error[chosen])
        error[chosen] = 0
        part[...] = sum_of_pairs(self.comm, mine).dense()


@dataclass(frozen=True)
class OneBit(CompressingScheme[A]):
    r"""1-bit SGD. With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples and the error :math:`e_i`, 0 at first,

    .. math::
        a_i = c_i + e_i, \quad e_i' = a_i - Q(a_i), \quad x' = \operatorname{inner}(x, \sum_j Q(a_j)),

    where :math:`Q` puts, in each group, for all elements of at least 0 their mean, and for all others theirs. What travels
    is a bit for each element and two numbers for each group.

    Args:
        group: So many elements, in backward order, share two numbers. (The paper has a group for each column of a matrix.)

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = OneBit(db.optimizers["sgd"](lr=1.0), comm), {"w": np.zeros(3)}
        ...     w, state = rule.update({"w": np.array([1.0, 3, -4])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].tolist(), state["residual"]["w"].tolist()
        >>> run_local(2, on_rank)[1]
        ([-2.0, -2.0, 4.0], [-0.5, 0.5, 0.0])

    Source:
        Seide, Fu, Droppo, Li and Yu, *1-bit stochastic gradient descent and its application to data-parallel distributed
        training of speech DNNs*, Interspeech 2014, section 3. Sums are not quantised again on their way back
        here.
    """

    group: int = setting(512, COUNT)
    _errors: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        return {"residual": zeros(parameters, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        errors = self._errors.packed(in_order(state["residual"], contribution), xp)
        for flat, error in zip(contribution.flats, errors.flats, strict=True):
            if flat.size:
                error += flat
                mine = self._encoded(error)
                messages = self.comm.allgather(mine)
                error -= self._decoded(mine, flat)
                flat[...] = self._decoded(messages[0], flat)
                for message in messages[1:]:
                    flat += self._decoded(message, flat)
        return {"residual": errors.native(xp)}

    def _encoded(self, vector: np.ndarray) -> NDArray[np.uint8]:
        """One message: both means of each group, then the bits."""
        rows = grouped(vector, self.group)
        positive = rows >= 0
        counts = positive.sum(axis=1)
        counts[-1] -= rows.size - vector.size  # zeros that fill up the last group
        negatives = np.maximum((~positive).sum(axis=1), 1)
        means = np.stack(
            [
                np.sum(np.where(positive, rows, 0), axis=1) / np.maximum(counts, 1),
                np.sum(np.where(positive, 0, rows), axis=1) / negatives,
            ]
        ).astype(vector.dtype)
        bits = positive.reshape(-1)[: vector.size].astype(np.uint16)
        return np.concatenate([means.reshape(-1).view(np.uint8), packed_codes(bits, 1)])

    def _decoded(self, message: NDArray[np.uint8], like: np.ndarray) -> np.ndarray:
        groups = -(-like.size // self.group)
        head = 2 * groups * like.itemsize
        above, below = message[:head].copy().view(like.dtype).reshape(2, groups)
        bits = grouped(unpacked_codes(message[head:], 1, like.size), self.group).astype(bool)
        return np.where(bits, above[:, None], below[:, None]).reshape(-1)[: like.size]


_LEVELS = Allowed("a whole number from 1 to 32767", lambda s: isinstance(s, int) and 1 <= s <= 32767)


@dataclass(frozen=True)
class Quantised(CompressingScheme[A]):
    r"""Each rank gives its contribution, gradients weighted by its samples, in :math:`2 s + 1` levels; all add what they
    get.

    An element of a group :math:`v` becomes

    .. math::
        Q_s(v_i) = \|v\| \operatorname{sgn}(v_i) \frac{l_i}{s}, \qquad
        l_i = \left\lfloor s \frac{|v_i|}{\|v\|} \right\rfloor \text{ or one more},

    one more with the probability of what was cut off, so that :math:`E\,Q_s(v) = v`. Elements are sent in 2, 4, 8 or 16
    bits, as few as hold :math:`2 s + 1` numbers, and one norm for each group. A group with an element that is not finite
    becomes all NaN.

    Args:
        levels: :math:`s`: 1, 7 and 127 fill 2, 4 and 8 bits.
        group: So many elements, in backward order, share a norm.
        norm: ``euclidean``, or ``max`` for the largest magnitude, which errs less and costs sparsity.
        seed: Of the draws, which are a function of it, of the step and of the rank.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Quantised(db.optimizers["sgd"](lr=1.0), comm, levels=1, norm="max"), {"w": np.zeros(3)}
        ...     return rule.update({"w": np.array([4.0, -4, 0])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank)
        [[-4.0, 4.0, 0.0], [-4.0, 4.0, 0.0]]

    Source:
        Alistarh, Grubic, Li, Tomioka and Vojnović, *QSGD: communication-efficient SGD via gradient quantization and
        encoding*, NeurIPS 2017, section 3.1, and section 4 for groups (buckets there) and the norm.
    """

    levels: int = setting(127, _LEVELS)
    group: int = setting(512, COUNT)
    norm: str = setting("euclidean", one_of("euclidean", "max"))
    seed: int = setting(0, SEED)

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        chance = drawn(self.seed, number(state["steps"], xp), self.comm.rank)
        for flat in contribution.flats:
            if flat.size:
                messages = self.comm.allgather(self._encoded(flat, chance.random(flat.size)))
                flat[...] = self._decoded(messages[0], flat)
                for message in messages[1:]:
                    flat += self._decoded(message, flat)
        return {}

    def _encoded(self, vector: np.ndarray, chance: NDArray[np.float64]) -> NDArray[np.uint8]:
        """One message: the norms, then the codes: a level with its sign, plus the number of levels."""
        rows = np.abs(grouped(vector, self.group))
        finite = np.isfinite(rows).all(axis=1)
        rows[~finite] = 0
        sizes = np.sqrt(np.sum(rows * rows, axis=1)) if self.norm == "euclidean" else np.max(rows, axis=1)
        divisors = np.where(sizes > 0, sizes, 1).astype(vector.dtype)
        place = (rows / divisors[:, None] * vector.dtype.type(self.levels)).reshape(-1)[: vector.size]
        lower = np.minimum(np.floor(place), self.levels - 1)
        level = (lower + (chance < place - lower)).astype(np.int32)
        codes = (np.where(vector < 0, -level, level) + self.levels).astype(np.uint16)
        norms = np.where(finite, sizes, np.nan).astype(vector.dtype)
        return np.concatenate([norms.view(np.uint8), packed_codes(codes, width_of(2 * self.levels))])

    def _decoded(self, message: NDArray[np.uint8], like: np.ndarray) -> np.ndarray:
        head = -(-like.size // self.group) * like.itemsize
        norms = message[:head].copy().view(like.dtype)
        codes = unpacked_codes(message[head:].copy(), width_of(2 * self.levels), like.size)
        steps = (codes.astype(like.dtype) - like.dtype.type(self.levels)) / like.dtype.type(self.levels)
        return (grouped(steps, self.group) * norms[:, None]).reshape(-1)[: like.size]


@dataclass(frozen=True)
class LowRank(CompressingScheme[A]):
    r"""PowerSGD with error feedback and warm start. Each parameter of two axes or more is a matrix, the first axis by all
    others.

    With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples, the error :math:`e_i`, 0 at first, and a :math:`Q`
    that all ranks share,

    .. math::
        M_i &= c_i + e_i, \quad \hat P = \operatorname{orthonormal}\left(\sum_j M_j Q\right), \quad
        Q_i = M_i^\mathsf{T} \hat P, \\
        Q' &= \sum_j Q_j, \quad e_i' = M_i - \hat P Q_i^\mathsf{T}, \quad x' = \operatorname{inner}(x, \hat P Q'^\mathsf{T}).

    All :math:`M Q` travel in one message together with the parameters of one axis, which are not compressed; all :math:`Q`
    in a second.

    Args:
        rank: The columns of :math:`\hat P`, at most as many as the matrix has rows or columns.
        seed: The first :math:`Q` of parameter number :math:`p` is drawn from (seed, :math:`p`).

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = LowRank(db.optimizers["sgd"](lr=1.0), comm, rank=1), {"w": np.zeros((2, 2))}
        ...     w, _ = rule.update({"w": np.array([[1.0, 2.0], [2.0, 4.0]])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].round(6).tolist()
        >>> run_local(2, on_rank)[0]
        [[-1.0, -2.0], [-2.0, -4.0]]

    Source:
        Vogels, Karimireddy and Jaggi, *PowerSGD: practical low-rank gradient compression for distributed optimization*,
        NeurIPS 2019, algorithms 1 and 2.
    """

    rank: int = setting(2, COUNT)
    seed: int = setting(0, SEED)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        basis: dict[str, A] = {}
        for index, (name, w) in enumerate(parameters.items()):
            shape = xp.shape(w)
            if len(shape) > 1 and 0 not in shape:
                rows, columns = shape[0], prod(shape[1:])
                first = np.random.default_rng([self.seed, index]).standard_normal((columns, min(self.rank, rows, columns)))
                basis[name] = xp.array(first.astype(max(xp.dtype(w), WIDE, key=lambda dtype: dtype.itemsize)))
        return {"basis": basis, "residual": zeros({name: parameters[name] for name in basis}, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        matrices = {name: _matrix(part) for name, part in contribution.parts.items() if name in state["basis"]}
        vectors = {name: part for name, part in contribution.parts.items() if name not in matrices}
        for name, matrix in matrices.items():
            matrix += _matrix(xp.host(state["residual"][name]))
        small = {name: m @ xp.host(state["basis"][name]) for name, m in matrices.items()}
        summed = self._together({**vectors, **small})
        for name, part in vectors.items():
            part[...] = summed[name]
        left_factor = {name: np.linalg.qr(summed[name])[0] for name in matrices}
        mine = {name: m.T @ left_factor[name] for name, m in matrices.items()}
        errors = {
            name: xp.array((m - left_factor[name] @ mine[name].T).reshape(xp.shape(state["residual"][name])))
            for name, m in matrices.items()
        }
        right = self._together(mine)
        for name, matrix in matrices.items():
            matrix[...] = left_factor[name] @ right[name].T
        return {"basis": {name: xp.array(right[name]) for name in state["basis"]}, "residual": errors}

    def _together(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sums over all ranks, with one message for each element type."""
        sums: dict[str, np.ndarray] = {}
        for dtype in dict.fromkeys(x.dtype for x in arrays.values()):
            alike = {name: x for name, x in arrays.items() if x.dtype == dtype}
            flat = np.concatenate([x.reshape(-1) for x in alike.values()])
            self.comm.allreduce(flat, out=flat)
            ends = np.cumsum([x.size for x in alike.values()])
            for (name, x), part in zip(alike.items(), np.split(flat, ends[:-1]), strict=True):
                sums[name] = part.reshape(x.shape)
        return sums


def _matrix(x: np.ndarray) -> np.ndarray:
    """The first axis by all others, in the same memory."""
    return x.reshape(len(x), -1)
