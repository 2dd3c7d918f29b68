"""Classical machine learning: encodings, linear models, trees and support vectors."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts
from deep_bench.facts.rules import below

OPERATORS: Mapping[str, OperatorFacts] = {
    "ai.onnx.ml::ArrayFeatureExtractor": OperatorFacts(draws={"Y": below("X", -1)}),
    **{
        f"ai.onnx.ml::{name}": OperatorFacts()
        for name in (
            "Binarizer",
            "CastMap",
            "CategoryMapper",
            "DictVectorizer",
            "FeatureVectorizer",
            "Imputer",
            "LabelEncoder",
            "LinearClassifier",
            "LinearRegressor",
            "Normalizer",
            "OneHotEncoder",
            "SVMClassifier",
            "SVMRegressor",
            "Scaler",
            "TreeEnsemble",
            "TreeEnsembleClassifier",
            "TreeEnsembleRegressor",
            "ZipMap",
        )
    },
}
"""The rows, by operator."""
