"""Recipes: a training run as data, in a YAML file that a record keeps. Those that ship are in `RECIPES`."""

from __future__ import annotations

from deep_bench.training.recipes.recipe import RECIPES, Recipe, load_recipe

__all__ = ["RECIPES", "Recipe", "load_recipe"]
