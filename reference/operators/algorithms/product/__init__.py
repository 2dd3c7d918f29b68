"""Ways to multiply matrices, for ``MatMul`` and ``Gemm``; the reference itself leaves it to NumPy's BLAS."""
