"""Which functions of NumPy and SciPy are exact, which round once, and which are written in terms of others."""

from __future__ import annotations

EXACT_UFUNCS = frozenset(
    """
    equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    maximum minimum fmax fmin clip negative positive absolute fabs sign signbit copysign conjugate
    floor ceil trunc rint isnan isinf isfinite heaviside fmod modf frexp ldexp floor_divide gcd lcm bitwise_count
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Ufuncs whose result the working format holds whenever it holds the operands, and decisions."""

ROUNDED_UFUNCS = frozenset(
    """
    add subtract multiply divide reciprocal square sqrt cbrt hypot power float_power remainder divmod
    exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2
    sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg degrees radians
    erf erfc erfinv ndtr expit log_expit logit gamma gammaln digamma xlogy xlog1py log_ndtr
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Ufuncs with one rounding: kernels give these within a unit or two in the last place."""

EXACT_FUNCTIONS = frozenset(
    """
    reshape ravel transpose swapaxes moveaxis rollaxis roll flip flipud fliplr rot90 squeeze expand_dims broadcast_to
    broadcast_arrays atleast_1d atleast_2d atleast_3d copy copyto matrix_transpose permute_dims array_split
    concatenate stack vstack hstack dstack column_stack block split vsplit hsplit dsplit tile repeat pad append insert delete
    resize take take_along_axis put_along_axis put putmask place choose select compress extract where nonzero argwhere
    flatnonzero count_nonzero diagonal diag diagflat tril triu tril_indices_from triu_indices_from
    fill_diagonal ix_ meshgrid unstack zeros_like ones_like empty_like full_like array_equal
    array_equiv shape ndim size iscomplexobj isrealobj
    amax amin max min argmax argmin nanmax nanmin nanargmax nanargmin sort argsort partition argpartition lexsort unique
    unique_values unique_counts unique_inverse unique_all searchsorted digitize bincount isin in1d
    any all clip fix round around rint real imag nan_to_num isclose allclose isposinf isneginf result_type can_cast
    min_scalar_type common_type may_share_memory shares_memory array_str array_repr array2string apply_along_axis
    apply_over_axes ndindex histogram_bin_edges packbits unpackbits sign
    lib.stride_tricks.sliding_window_view lib._stride_tricks_impl.sliding_window_view
    fft.fftshift fft.ifftshift fft.fftfreq
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Functions that copy, select or decide; names relative to ``numpy``."""

COMPOSITE_FUNCTIONS = frozenset({"mean", "var", "std", "diff", "ptp"})
"""Functions that NumPy writes in Python with others that are handed over in turn."""
