"""Recipes: experiments as data, run cell by cell, here or as jobs of SLURM; and what others need to repeat a run.

The words: a *recipe* is what a person writes, a YAML file or a mapping. It says what is fixed, what varies and what is
accepted; `Experiment` is a recipe that was read and found to be sound. It measures at a *level*, whose fields and all that
follows from them are a class of `deep_bench.recipes.levels`. Each combination of its factors is a `Cell`, one measurement; a
condition on its results is a *rule*. A *training recipe* (`deep_bench.training.Recipe`) is another thing: what a single run
of training is made from; recipes of the levels training and scaling name one. Records keep the *options* that were in force,
and all seeds (`deep_bench.records.model.OptionsRecord`, in the field ``recipe`` that files have had from the beginning).

A `bundle` holds all that a repetition needs, a `Repetition` is a run that was repeated, and badges say what was shown.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
