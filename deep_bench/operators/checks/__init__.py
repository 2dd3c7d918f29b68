"""Checks that anyone's kernel can be put through, each usable alone."""
