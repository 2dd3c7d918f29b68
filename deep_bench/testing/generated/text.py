"""Strings: case, accents, empty ones, other scripts; patterns in the syntax that RE2 and Python share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.tensor import STRING
from deep_bench.testing.generated.problem import Draw, GeneratedProblem

Generator = Callable[[Draw], GeneratedProblem]

_WORDS = ("monday", "Monday", "TUESDAY", "tuesday", "é", "É", "straße", "Ωmega", "日本", "a b", "", "x1")
_SPLIT = ("a b c", " a  b ", "", "a", ",", "a,b,,c", ",a,", "a--b-c", "é,è", "\ta\nb", "日本,語", "aXbXXc")
_PATTERNS = {
    "a+b?": ("a", "aab", "ab", "abb", "b", "", "aabX"),
    "a|ab": ("a", "ab", "abc", "b"),
    r"\d{2,3}-[a-f]+": ("12-abc", "1-a", "123-f", "1234-a", "12-g"),
    r"[^@\s]+@[\w.-]+\.(com|org)": ("a@b.com", "a@b.c", "a@b.org ", " a@b.org", "x.y@z-1.org"),
    "(?i)hello": ("Hello", "HELLO", "hello!", "hell"),
    "^abc$": ("abc", "abcd", "xabc", "abc\n"),
    ".*": ("", "anything", "a b", "é"),
    "é.": ("éa", "é", "éé", "ea"),
    "": ("", "a"),
    r"\.": (".", "a", ".."),
    "(ab)*?": ("", "ab", "abab", "aba"),
}


def strings(draw: Draw, pool: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Some of the strings."""
    array = np.empty(shape, STRING)
    array.reshape(-1)[:] = [draw.pick(pool) for _ in range(array.size)]
    return array


def StringConcat(draw: Draw) -> GeneratedProblem:
    """The two broadcast."""
    shape = draw.shape()
    a, b = strings(draw, _WORDS, draw.broadcast(shape)), strings(draw, _WORDS, shape)
    return GeneratedProblem("StringConcat", [b, a] if draw.boolean() else [a, b])


def StringSplit(draw: Draw) -> GeneratedProblem:
    """Delimiters of several lengths, at the ends and next to each other.

    Left open, and avoided: how many parts no text has; blanks at the end of what is not split any further.
    """
    delimiter, most = draw.pick((None, "", " ", ",", "--", "X", "日")), draw.pick((None, 1, 2, 5))
    pool = tuple(text for text in _SPLIT if (text or not delimiter) and (delimiter or not most or text == text.rstrip()))
    settings = {"delimiter": delimiter, "maxsplit": most}
    return GeneratedProblem("StringSplit", [strings(draw, pool, draw.full_shape(0, 3))], settings, outputs=2)


def StringNormalizer(draw: Draw) -> GeneratedProblem:
    """No letter whose upper case has another length or depends on its place: there languages and platforms differ."""
    pool = tuple(word for word in _WORDS if "ß" not in word)
    shape = (draw.integer(1, 6),)
    x = strings(draw, pool, draw.pick((shape, (1, *shape))))
    stop = tuple({draw.pick(pool): None for _ in range(draw.integer(1, 5))})
    settings = {
        "case_change_action": draw.pick((None, "LOWER", "UPPER", "NONE")),
        "is_case_sensitive": draw.pick((None, 0, 1)),
        "locale": draw.pick((None, None, "en_US")),
        "stopwords": draw.maybe(stop),
    }
    return GeneratedProblem("StringNormalizer", [x], settings)


def RegexFullMatch(draw: Draw) -> GeneratedProblem:
    """Strings that match as a whole, in part, and not at all; what ``$`` says of a last line break is left open."""
    pattern = draw.pick(tuple(_PATTERNS))
    pool = tuple(text for text in _PATTERNS[pattern] if "\n" not in text)
    return GeneratedProblem("RegexFullMatch", [strings(draw, pool, draw.shape(0, 3))], {"pattern": pattern})


def TfIdfVectorizer(draw: Draw) -> GeneratedProblem:
    """Pools of one to three lengths, items that repeat, and skips; every n-gram is in the pool once.

    A pool without n-grams of the shortest length asked for is avoided, as are skips between single items.
    """
    longest = draw.integer(1, 3)
    shortest = draw.integer(1, longest)
    items = draw.pick((tuple(range(4)), ("a", "B", "é", "")))
    grams = [_grams(draw, items, n) for n in range(1, longest + 1)]
    pool = [item for of_length in grams for gram in of_length for item in gram]
    starts = np.cumsum([0, *(len(g) * n for n, g in enumerate(grams[:-1], start=1))]).tolist()
    count = sum(map(len, grams))
    kind = STRING if isinstance(items[0], str) else draw.pick((np.int64, np.int32))
    shape = draw.pick(((6,), (draw.integer(1, 3), draw.integer(1, 8))))
    x = np.empty(shape, kind)
    x.reshape(-1)[:] = [draw.pick(items) for _ in range(x.size)]
    weights = tuple(draw.integer(1, 9) / 4 for _ in range(count))
    settings = {
        "mode": draw.pick(("TF", "IDF", "TFIDF")),
        "min_gram_length": shortest,
        "max_gram_length": longest,
        "max_skip_count": draw.integer(0, 3),
        "ngram_counts": starts,
        "ngram_indexes": sorted(range(count), key=lambda _: draw.integer(0, 99)),
        "pool_strings" if kind == STRING else "pool_int64s": pool,
        "weights": draw.maybe(weights),
    }
    return GeneratedProblem("TfIdfVectorizer", [x], settings)


def _grams(draw: Draw, items: tuple[object, ...], length: int) -> list[tuple[object, ...]]:
    drawn = (tuple(draw.pick(items) for _ in range(length)) for _ in range(draw.integer(1, 4)))
    return list(dict.fromkeys(drawn))


GENERATORS: dict[str, Generator] = {
    f.__name__: f for f in (RegexFullMatch, StringConcat, StringNormalizer, StringSplit, TfIdfVectorizer)
}
