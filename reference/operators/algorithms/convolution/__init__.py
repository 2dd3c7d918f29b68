"""Ways to compute a convolution: by the definition, through Fourier transforms, and in Winograd's tiles.

By matrix products of windows laid out in columns (im2col) is how the reference itself does it.
"""
