"""Recipes of any level: what is fixed, what varies; run cell by cell, here or as jobs of a cluster."""
