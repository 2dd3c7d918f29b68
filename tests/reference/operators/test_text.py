"""Operators on strings at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.text import (
    RegexFullMatch,
    StringConcat,
    StringNormalizer,
    StringSplit,
    TfIdfVectorizer,
)


def strings(*values):
    return np.array(values, dtype=object)


def test_concat_broadcasts_and_keeps_scalars_arrays():
    assert StringConcat(strings("a", "b"), np.array("ß", object)).tolist() == ["aß", "bß"]
    y = StringConcat(np.array("a", object), np.array("b", object))
    assert (y.shape, y.dtype, y.item()) == ((), object, "ab")


def test_split_pads_and_counts():
    parts, counts = StringSplit(strings("a,b,,c", "", "a"), delimiter=",")
    assert parts.tolist() == [["a", "b", "", "c"], ["", "", "", ""], ["a", "", "", ""]]
    assert counts.tolist() == [4, 1, 1]
    parts, counts = StringSplit(strings(" a  b c ", ""), maxsplit=1)
    assert parts.tolist() == [["a", "b c "], ["", ""]]
    assert counts.tolist() == [2, 0]


def test_split_nothing():
    parts, counts = StringSplit(np.empty((2, 0), object))
    assert (parts.shape, counts.shape) == ((2, 0, 0), (2, 0))


def test_normalizer():
    x = strings("Monday", "tuesday", "MONDAY")
    assert StringNormalizer(x, stopwords=("monday",)).tolist() == ["tuesday"]
    assert StringNormalizer(x, stopwords=("MONDAY",), is_case_sensitive=1).tolist() == ["Monday", "tuesday"]
    assert StringNormalizer(x[np.newaxis], case_change_action="UPPER").tolist() == [["MONDAY", "TUESDAY", "MONDAY"]]
    assert StringNormalizer(x[np.newaxis, :1], stopwords=("monday",)).tolist() == [[""]]
    with pytest.raises(Unsupported, match="TITLE"):
        StringNormalizer(x, case_change_action="TITLE")


def test_regex_matches_the_whole_string():
    y = RegexFullMatch(np.array([["ab", "abc"], ["b", ""]], object), pattern="a?b")
    assert y.tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(("mode", "expected"), [("TF", [2, 1, 0]), ("IDF", [0.5, 2, 0]), ("TFIDF", [1, 2, 0])])
def test_tf_idf_of_strings(mode, expected):
    options = {"ngram_counts": (0, 1), "ngram_indexes": (0, 1, 2), "weights": (0.5, 2.0, 3.0), "mode": mode}
    y = TfIdfVectorizer(
        strings("a", "x", "b", "a"),
        pool_strings=("a", "a", "b", "b", "x"),
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=1,
        **options,
    )
    assert y.dtype == np.float32
    assert y.tolist() == expected


def test_tf_idf_counts_rows_apart_and_skips_no_single_item():
    options = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 3, "mode": "TF", "ngram_counts": (0,)}
    y = TfIdfVectorizer(np.array([[1, 1, 2], [2, 2, 2]]), pool_int64s=(1, 2), ngram_indexes=(1, 0), **options)
    assert y.tolist() == [[1, 2], [3, 0]]
    with pytest.raises(InvalidInput, match="without a pool"):
        TfIdfVectorizer(np.array([1]), ngram_indexes=(0,), **options)
