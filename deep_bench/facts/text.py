"""Operators on strings."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts

OPERATORS: Mapping[str, OperatorFacts] = {
    "StringNormalizer": OperatorFacts(choices={"case_change_action": "LOWER NONE UPPER"}),
    "TfIdfVectorizer": OperatorFacts(choices={"mode": "IDF TF TFIDF"}),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringSplit"), OperatorFacts()),
}
"""The rows, by operator."""
