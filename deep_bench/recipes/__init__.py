"""Recipes: experiments as data, run cell by cell, here or as jobs of SLURM; and what others need to repeat a run.

A recipe says what is fixed, what varies and what is accepted. A bundle holds all that a repetition needs, and badges say
what was shown.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
