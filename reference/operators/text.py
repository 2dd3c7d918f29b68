"""Operators on strings, which are ``object`` arrays of ``str``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice, ints64

__all__ = ["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"]


def _strings(values, shape):
    """An array of strings; ``np.array`` alone would give it a fixed width, or split the strings."""
    array = np.empty(shape, dtype=object)
    array[...] = np.reshape(np.array(list(values), dtype=object), shape)
    return array


def StringConcat(x, y):
    """``x + y``, element by element. Source: ONNX StringConcat, opset 20."""
    return np.asanyarray(x.astype(object) + y.astype(object), dtype=object)


def StringSplit(x, *, delimiter=None, maxsplit=None):
    """Each string's parts along a new last axis, filled with empty strings, and how many there are.

    Without a delimiter any white space separates, and none is left at the ends.

    Source: ONNX StringSplit, opset 20.
    """
    limit = -1 if maxsplit is None else maxsplit
    parts = [text.split(delimiter or None, limit) for text in np.ravel(x).tolist()]
    width = max(map(len, parts), default=0)
    filled = (part for p in parts for part in (*p, *[""] * (width - len(p))))
    return _strings(filled, (*x.shape, width)), ints64(np.reshape([len(p) for p in parts], x.shape))


def StringNormalizer(x, *, case_change_action="NONE", is_case_sensitive=0, locale=None, stopwords=()):
    """The strings that are not stop words, in upper or lower case; one empty string if none is left.

    Case is changed as Unicode says, whatever the ``locale``.

    Source: ONNX StringNormalizer, opset 10.
    """
    cases: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    check_choice("StringNormalizer", "case_change_action", case_change_action, cases)
    fold, change = cases["NONE" if is_case_sensitive else "LOWER"], cases[case_change_action]
    stop = {fold(word) for word in stopwords or ()}
    texts = [change(text) for text in np.ravel(x).tolist() if fold(text) not in stop] or [""]
    return _strings(texts, (*x.shape[:-1], len(texts)))


def RegexFullMatch(x, *, pattern):
    """Whether each string as a whole matches. Source: ONNX RegexFullMatch, opset 20.

    The pattern is in the syntax of RE2, which Python's ``re`` reads.
    """
    matches = [re.fullmatch(pattern, text) is not None for text in np.ravel(x).tolist()]
    return np.reshape(np.array(matches, dtype=bool), x.shape)


def TfIdfVectorizer(
    x,
    *,
    max_gram_length,
    max_skip_count,
    min_gram_length,
    mode,
    ngram_counts,
    ngram_indexes,
    pool_int64s=None,
    pool_strings=None,
    weights=None,
):
    """How often each n-gram of the pool is in each row: ``TF``; at most once, times its weight: ``IDF``; or ``TFIDF``.

    The elements of an n-gram lie ``1 … max_skip_count + 1`` apart.

    Source: ONNX TfIdfVectorizer, opset 9.
    """
    check_choice("TfIdfVectorizer", "mode", mode, ("TF", "IDF", "TFIDF"))
    pool = pool_int64s if pool_strings is None else pool_strings
    if pool is None:
        raise InvalidInput("TfIdfVectorizer without a pool", "pool_int64s or pool_strings")
    # the n-grams of a pool: those of length ``n + 1`` lie from ``starts[n]`` on
    ends = [*ngram_counts[1:], len(pool)]
    grams = [
        tuple(pool[i : i + n])
        for n, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1)
        for i in range(start, end, n)
    ]
    rows = [x] if x.ndim < 2 else list(x)
    y = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, out in zip(rows, y, strict=True):
        counts = _gram_counts(np.ravel(row).tolist(), min_gram_length, max_gram_length, max_skip_count)
        for i, (gram, column) in enumerate(zip(grams, ngram_indexes, strict=True)):
            count = counts[gram] if mode != "IDF" else min(counts[gram], 1)
            out[column] += count if mode == "TF" or weights is None else count * weights[i]
    return y[0] if x.ndim < 2 else y


def _gram_counts(items, shortest, longest, max_skip):
    """Every n-gram of a row with its number of occurrences. Skips make no difference to a single item."""
    return Counter(
        tuple(items[i : i + (n - 1) * step + 1 : step])
        for n in range(shortest, longest + 1)
        for step in range(1, max_skip + 2 if n > 1 else 2)
        for i in range(len(items) - (n - 1) * step)
    )
