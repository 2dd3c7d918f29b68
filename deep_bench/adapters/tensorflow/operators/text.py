"""Strings, as far as TensorFlow's functions for them agree with ONNX on every character."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.operators._site import maybe_rank

__all__ = ["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"]


def StringConcat(site: Site) -> Callable[..., Any]:
    """Strings one after the other, element by element."""
    del site
    return lambda x, y: tf.raw_ops.Add(x=x, y=y)


def RegexFullMatch(site: Site) -> Callable[..., Any]:
    """Whether each string as a whole matches a pattern, in the syntax of RE2, which is TensorFlow's engine."""
    pattern = site.attributes["pattern"]
    return lambda x: tf.strings.regex_full_match(x, pattern)


def StringSplit(site: Site) -> Callable[..., Any]:
    """Each string's parts along a new last axis, filled with empty strings, and how many there are."""
    delimiter, most = site.attribute("delimiter"), site.attribute("maxsplit")
    if not delimiter:
        raise NotNative("TensorFlow splits at the white space of ASCII only")
    if most == 0:
        raise NotNative("TensorFlow takes no splits for any number of them")

    def run(x: Any) -> Any:
        parts = tf.strings.split(tf.reshape(x, [-1]), delimiter, -1 if most is None else most)
        table = parts.to_tensor("")
        shape = tf.concat([tf.shape(x), tf.shape(table)[1:]], 0)
        counts = tf.reshape(tf.cast(parts.row_lengths(), tf.int64), tf.shape(x))
        return (tf.reshape(table, shape), counts) if len(site.outputs) > 1 else tf.reshape(table, shape)

    return run


def StringNormalizer(site: Site) -> Callable[..., Any]:
    """The strings that are no stop words, in upper or lower case; one empty string if none is left."""
    action, exact = site.attribute("case_change_action", "NONE"), site.attribute("is_case_sensitive", 0)
    change = {"NONE": tf.identity, "LOWER": _lower, "UPPER": lambda x: tf.strings.upper(x, "utf-8")}[action]
    words = [w if exact else w.lower() for w in site.attribute("stopwords") or ()]
    rank = maybe_rank(site)

    def run(x: Any) -> Any:
        flat = tf.reshape(x, [-1])
        folded = flat if exact else _lower(flat)
        if words:
            flat = tf.boolean_mask(flat, ~tf.reduce_any(tf.equal(folded[:, None], tf.constant(words)), 1))
        remaining = change(flat)
        remaining = tf.cond(tf.size(remaining) > 0, lambda: remaining, lambda: tf.constant([""]))
        return remaining if rank == 1 else tf.reshape(remaining, tf.concat([tf.shape(x)[:-1], tf.shape(remaining)], 0))

    return run


def _lower(x: Any) -> Any:
    return tf.strings.lower(x, "utf-8")


def TfIdfVectorizer(site: Site) -> Callable[..., Any]:
    """How often each n-gram of a pool is in each row, at most once or weighted if asked for."""
    mode, weights = site.attributes["mode"], site.attribute("weights")
    skips, columns = site.attributes["max_skip_count"], site.attributes["ngram_indexes"]
    lengths = range(site.attributes["min_gram_length"], site.attributes["max_gram_length"] + 1)
    strings = site.attribute("pool_strings")
    # the n-grams of a pool by their length: those of ``n + 1`` elements lie from ``starts[n]`` on
    pool = strings if strings is not None else site.attributes["pool_int64s"]
    starts = site.attributes["ngram_counts"]
    ends = [*starts[1:], len(pool)]
    pairs = zip(starts, ends, strict=True)
    groups = [(n, [pool[i : i + n] for i in range(a, b, n)]) for n, (a, b) in enumerate(pairs, start=1)]
    rank = maybe_rank(site)
    if rank is None:
        raise NotNative("the rank of the input is not known when the network is prepared")

    def run(x: Any) -> Any:
        rows = tf.reshape(x, [1, -1]) if rank < 2 else tf.reshape(x, [tf.shape(x)[0], -1])
        rows = rows if strings is not None else tf.cast(rows, tf.int64)
        group_counts = [
            _counted(rows, n, grams, skips if n > 1 else 0) if n in lengths else tf.zeros([tf.shape(rows)[0], len(grams)])
            for n, grams in groups
        ]
        counts = tf.concat(group_counts, 1)
        counts = tf.minimum(counts, 1) if mode == "IDF" else counts
        factors = np.ones(len(columns), np.float32) if mode == "TF" or weights is None else np.array(weights, np.float32)
        placed = np.zeros((len(columns), max(columns) + 1), np.float32)
        placed[np.arange(len(columns)), list(columns)] = factors
        y = tf.matmul(counts, placed)
        return y[0] if rank < 2 else y

    return run


def _counted(rows: Any, n: int, grams: Sequence[Sequence[Any]], skips: int) -> Any:
    """How often each n-gram is in each row, with elements ``1 … skips + 1`` apart."""
    total = tf.zeros([tf.shape(rows)[0], len(grams)])
    targets = tf.constant([list(g) for g in grams], rows.dtype) if grams else None
    for step in range(1, skips + 2) if targets is not None else ():
        count = tf.maximum(tf.shape(rows)[1] - (n - 1) * step, 0)
        matches: Any = tf.constant(True)
        for i in range(n):
            part = rows[:, i * step : i * step + count]
            matches = matches & tf.equal(part[:, :, None], targets[:, i])  # type: ignore[index]
        total = total + tf.reduce_sum(tf.cast(matches, tf.float32), 1)
    return total
