"""Strings: natively where TensorFlow agrees on every character, else by the reference."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.reference.operators import find

from .conftest import one_node


def text(*values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def equal(run, operator, inputs, outputs=1, **attributes):
    found = run(operator, inputs, outputs=outputs, **attributes)
    want = find("", operator)(*inputs, **attributes)
    for g, w in zip(found if outputs > 1 else [found], want if isinstance(want, tuple) else [want], strict=True):
        assert g.tolist() == np.asarray(w).tolist()
        assert g.shape == w.shape


def test_concatenation_broadcasts(run):
    equal(run, "StringConcat", [text("ä", "b", "").reshape(3, 1), text("x", "ß")])
    equal(run, "Equal", [text("ä", "b", "").reshape(3, 1), text("b", "ä")])


def test_a_match_is_of_the_whole_string(run):
    equal(run, "RegexFullMatch", [text("abc", "xabc", "", "äbc")], pattern="(ä|a)b?c")


@pytest.mark.parametrize("options", [{}, {"maxsplit": 1}])
def test_parts(run, options):
    words = text("a.b..c", "", ".", "böse. x").reshape(2, 2)
    equal(run, "StringSplit", [words], outputs=2, delimiter=".", **options)
    equal(run, "StringSplit", [text()], outputs=2, delimiter=".", **options)


def test_white_space_is_left_to_the_reference(adapter):
    words = text(" a\u3000b ", "c")
    executor = adapter.prepare(one_node("StringSplit", [words], 2, 99, 24, {}))
    assert "white space" in executor.forms.fallback["StringSplit"]
    assert executor({"i0": words})["o0"].tolist() == [["a", "b"], ["c", ""]]


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_normalisation(run, action, sensitive):
    options = {"case_change_action": action, "is_case_sensitive": sensitive}
    words = text("Monday", "STRASSE", "Straße", "ΑΣ", "monday")
    equal(run, "StringNormalizer", [words], stopwords=["monday", "Straße"], **options)
    equal(run, "StringNormalizer", [words.reshape(1, 5)], **options)
    equal(run, "StringNormalizer", [text("a", "a")], stopwords=["a"], **options)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_n_grams(run, mode):
    options = {
        "mode": mode, "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2, "ngram_counts": [0, 2, 6],
        "ngram_indexes": [1, 0, 4, 3, 2],
    }  # fmt: skip
    rows = np.array([[5, 4, 5, 4, 6, 4], [4, 4, 4, 6, 6, 5]], np.int64)
    pool = {"pool_int64s": [5, 4, 4, 4, 5, 6, 5, 4, 6]}
    equal(run, "TfIdfVectorizer", [rows], **options, **pool)
    equal(run, "TfIdfVectorizer", [rows[0].astype(np.int32)], weights=[0.5, 2.0, 1.0, 4.0, 0.25], **options, **pool)
    names = {"pool_strings": ["a", "b", "b", "b", "a", "c", "a", "b", "c"]}
    equal(run, "TfIdfVectorizer", [text("a", "b", "a", "c", "b", "c")], **options, **names)


def test_casts(run):
    for array in (np.array([True, False]), np.array([-5, 7], np.int16), np.array([2**63, 1], np.uint64)):
        equal(run, "Cast", [array], to=8)
    for code, dtype in ((1, np.float32), (11, np.float64)):
        found = run("Cast", [text("3.14", "-1e-5", "INF", "-INF", "NaN")], to=code)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.array([3.14, -1e-5, np.inf, -np.inf, np.nan], dtype))
