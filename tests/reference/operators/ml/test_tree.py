"""Decision trees against ONNX Runtime, and by hand where it does not do what the standard says."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from deep_bench.errors import InvalidInput, InvalidNetwork, Unsupported
from deep_bench.reference.operators.ml.tree import TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor

FEATURES = 4
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def grown(seed, trees=3, depth=3, modes=MODES):
    """Random trees: for each node its tree, number, mode, feature, threshold, and the numbers of its children."""
    rng = np.random.default_rng(seed)
    nodes = []
    for tree in range(trees):
        first = len(nodes)

        def grow(level, tree=tree, first=first):
            number = len(nodes) - first
            nodes.append([tree, number, "LEAF", 0, 0.0, 0, 0])
            if level and (level == depth or rng.random() < 0.8):
                threshold = float(rng.integers(-2, 3)) / 2
                mode, feature = str(rng.choice(modes)), int(rng.integers(FEATURES))
                nodes[first + number][2:] = [mode, feature, threshold, grow(level - 1), grow(level - 1)]
            return number

        grow(depth)
    return nodes


def listed(nodes, prefix, votes):
    """The attributes of the operators that name nodes by tree and number; votes are (node, target, weight)."""
    names = ["treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids"]
    stated = {f"nodes_{name}": [node[i] for node in nodes] for i, name in enumerate(names)}
    return stated | {
        f"{prefix}_treeids": [nodes[n][0] for n, _, _ in votes],
        f"{prefix}_nodeids": [nodes[n][1] for n, _, _ in votes],
        f"{prefix}_ids": [target for _, target, _ in votes],
        f"{prefix}_weights": [weight for _, _, weight in votes],
    }


def voted(nodes, targets, seed, *, share=0.7, positive=False):
    """Random votes at the leaves, for several targets or none."""
    rng = np.random.default_rng(seed)
    leaves = [i for i, node in enumerate(nodes) if node[2] == "LEAF"]
    weights = np.round(rng.standard_normal((len(leaves), targets)), 2).astype(np.float32)
    weights = np.abs(weights) if positive else weights
    pairs = [(leaf, t, float(w)) for leaf, row in zip(leaves, weights, strict=True) for t, w in enumerate(row)]
    return [vote for vote in pairs if rng.random() < share]


def rows(seed=0, count=16, *, missing=True):
    """Half of the values lie on thresholds."""
    rng = np.random.default_rng(50 + seed)
    x = np.where(rng.random((count, FEATURES)) < 0.5, rng.integers(-2, 3, (count, FEATURES)) / 2, rng.standard_normal(1))
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.03] = np.inf
    return x.astype(np.float32)


def one_leaf_votes(nodes, seed):
    """One vote for target 0 at each leaf."""
    return [(leaf, 0, weight) for leaf, _, weight in voted(nodes, 1, seed, share=1.1)]


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [2, 4])
def test_regressor(judge, aggregate, targets) -> None:
    for seed, transform in enumerate(TRANSFORMS):
        nodes = grown(seed)
        stated = listed(nodes, "target", voted(nodes, targets, seed)) | {"n_targets": targets}
        stated |= {"aggregate_function": aggregate, "post_transform": transform}
        judge("TreeEnsembleRegressor", [rows(seed)], **stated, version=1 + 2 * (seed % 2))
        tracks = np.random.default_rng(seed).integers(0, 2, len(nodes)).tolist()
        stated["nodes_missing_value_tracks_true"] = tracks
        judge("TreeEnsembleRegressor", [rows(seed)], **stated)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("mode", MODES)
def test_regressor_with_one_target(judge, aggregate, mode) -> None:
    nodes = grown(3, modes=[mode])
    stated = listed(nodes, "target", one_leaf_votes(nodes, 3)) | {"n_targets": 1, "aggregate_function": aggregate}
    stated["base_values"] = [0.25]
    for x in (rows(), rows()[:1], rows()[:0], rows().astype(np.float64)):
        judge("TreeEnsembleRegressor", [x], **stated)


def test_regressor_of_integers_and_with_doubles(judge) -> None:
    nodes = grown(4)
    stated = listed(nodes, "target", voted(nodes, 2, 4)) | {"n_targets": 2, "base_values": [1.0, -2.0]}
    numbers = (3 * rows(missing=False)).astype(np.int64)
    plain = TreeEnsembleRegressor(numbers, **stated)
    assert plain.tolist() == TreeEnsembleRegressor(numbers.astype(np.int32), **stated).tolist()
    assert plain == pytest.approx(TreeEnsembleRegressor(numbers.astype(np.float32), **stated), abs=1e-5)
    for name in ("nodes_values", "target_weights", "base_values"):
        stated[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(stated.pop(name)))
    judge("TreeEnsembleRegressor", [rows().astype(np.float64)], **stated, version=3)


def test_regressor_with_one_target_is_transformed() -> None:
    stated = listed([[0, 0, "LEAF", 0, 0.0, 0, 0]], "target", [(0, 0, 2.0)]) | {"n_targets": 1}
    y = TreeEnsembleRegressor(rows(), **stated, post_transform="LOGISTIC")
    assert y == pytest.approx(np.full((16, 1), 1 / (1 + np.exp(-2))))


def test_base_values_count_for_targets_without_votes() -> None:
    leaf = listed([[0, 0, "LEAF", 0, 0.0, 0, 0]], "target", [(0, 0, 2.0)])
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        y = TreeEnsembleRegressor(rows()[:1], **leaf, n_targets=2, base_values=(1.0, 4.0), aggregate_function=aggregate)
        assert y.tolist() == [[3, 4]]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_classifier(judge, transform) -> None:
    for seed in range(4):
        nodes = grown(seed)
        stated = listed(nodes, "class", voted(nodes, 3, seed, share=1.1)) | {"post_transform": transform}
        stated |= {"classlabels_strings": ["a", "b", "c"]} if seed % 2 else {"classlabels_int64s": [7, 5, 3]}
        stated |= {"base_values": [0.1, 0.2, -0.3]} if seed > 1 else {}
        for x in (rows(seed), rows(seed)[:1], rows(seed)[:0], (3 * rows(seed, missing=False)).astype(np.int64)):
            judge("TreeEnsembleClassifier", [x], n_outputs=2, **stated)


@pytest.mark.parametrize("base", [None, 0.125])
@pytest.mark.parametrize("positive", [False, True])
def test_classifier_with_votes_for_one_class(judge, positive, base) -> None:
    nodes = grown(6)
    votes = voted(nodes, 1, 6, share=1.1, positive=positive)
    options = {"classlabels_int64s": [7, 5]} | ({"base_values": [base]} if base else {})
    for transform in ("NONE", "LOGISTIC"):
        stated = listed(nodes, "class", votes) | options | {"post_transform": transform}
        judge("TreeEnsembleClassifier", [rows()], n_outputs=2, **stated)
    if base is None:
        second = [(leaf, 1, 0.2 * weight) for leaf, _, weight in votes]
        for transform in TRANSFORMS:
            stated = listed(nodes, "class", second) | options | {"post_transform": transform}
            judge("TreeEnsembleClassifier", [rows()], n_outputs=2, **stated)


def stump(votes, **stated):
    """A tree that goes to leaf 1 where the first feature is at most 0.5, else to leaf 2."""
    nodes = [[0, 0, "BRANCH_LEQ", 0, 0.5, 1, 2], [0, 1, "LEAF", 0, 0.0, 0, 0], [0, 2, "LEAF", 0, 0.0, 0, 0]]
    return listed(nodes, "class", votes) | stated


X = np.array([[0.0], [1.0]], np.float32)


def test_classifier_of_two_classes_takes_the_larger_score() -> None:
    votes = [(1, 0, 0.75), (1, 1, 0.25), (2, 0, 0.5), (2, 1, 0.625)]
    chosen, z = TreeEnsembleClassifier(X, **stump(votes, classlabels_int64s=(10, 20)))
    assert (chosen.tolist(), z.tolist()) == ([10, 20], [[0.75, 0.25], [0.5, 0.625]])
    chosen, z = TreeEnsembleClassifier(X, **stump(votes, classlabels_int64s=(10, 20), base_values=(0.0, 1.0)))
    assert (chosen.tolist(), z.tolist()) == ([20, 20], [[0.75, 1.25], [0.5, 1.625]])


def test_classifier_counts_classes_without_votes() -> None:
    chosen, z = TreeEnsembleClassifier(X, **stump([(1, 1, 0.5), (2, 1, -0.5)], classlabels_int64s=(10, 20, 30)))
    assert (chosen.tolist(), z.tolist()) == ([20, 10], [[0, 0.5, 0], [0, -0.5, 0]])


@pytest.mark.parametrize("labels", [{"classlabels_int64s": (10,)}, {"classlabels_strings": ("a",)}])
def test_classifier_of_one_class(labels) -> None:
    chosen, z = TreeEnsembleClassifier(X, **stump([(1, 0, 0.5), (2, 0, -0.5)], **labels))
    ((label,),) = labels.values()
    assert (chosen.tolist(), z.tolist()) == ([label, label], [[0.5], [-0.5]])


def test_classifier_transforms_the_scores_of_votes_for_one_class() -> None:
    votes = [(1, 0, 0.75), (2, 0, 0.25)]
    _, z = TreeEnsembleClassifier(X, **stump(votes, classlabels_int64s=(10, 20), post_transform="SOFTMAX"))
    assert z[0, 1] == pytest.approx(1 / (1 + np.exp(-1.5)))
    _, z = TreeEnsembleClassifier(X, **stump(votes, classlabels_int64s=(10, 20), post_transform="PROBIT"))
    assert z == pytest.approx(np.array([[-0.6744898, 0.6744898], [0.6744898, -0.6744898]]))


def packed(nodes, weights, *, targets=2, dtype=np.float32, seed=0):
    """The same trees as attributes of TreeEnsemble, whose leaves stand apart, with a target for each."""
    inner = [i for i, node in enumerate(nodes) if node[2] != "LEAF"]
    leaves = [i for i, node in enumerate(nodes) if node[2] == "LEAF"]
    first = {tree: min(i for i, node in enumerate(nodes) if node[0] == tree) for tree in {node[0] for node in nodes}}
    place = {i: k for k, i in enumerate(inner)} | {i: k for k, i in enumerate(leaves)}
    children = [[first[nodes[i][0]] + nodes[i][side] for i in inner] for side in (5, 6)]
    leaf_targets = np.random.default_rng(seed).integers(0, targets, len(leaves)).tolist()
    codes = np.array([MODES.index(nodes[i][2]) for i in inner], np.uint8)
    tensors = {
        "nodes_modes": codes,
        "nodes_splits": np.array([nodes[i][4] for i in inner], dtype),
        "leaf_weights": np.array(weights[: len(leaves)], dtype),
    }
    return {name: numpy_helper.from_array(t) for name, t in tensors.items()} | {
        "n_targets": targets,
        "tree_roots": [place[i] for i in first.values()],
        "nodes_featureids": [nodes[i][3] for i in inner],
        "nodes_truenodeids": [place[i] for i in children[0]],
        "nodes_trueleafs": [int(i in leaves) for i in children[0]],
        "nodes_falsenodeids": [place[i] for i in children[1]],
        "nodes_falseleafs": [int(i in leaves) for i in children[1]],
        "leaf_targetids": leaf_targets,
    }


WEIGHTS = np.round(np.random.default_rng(9).standard_normal(200), 2)


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
@pytest.mark.parametrize("transform", [0, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ensemble(judge, aggregate, transform, dtype) -> None:
    nodes = grown(aggregate, trees=5)
    stated = packed(nodes, WEIGHTS, dtype=dtype) | {"aggregate_function": aggregate, "post_transform": transform}
    inner = len(stated["nodes_featureids"])
    stated["nodes_missing_value_tracks_true"] = np.random.default_rng(0).integers(0, 2, inner).tolist()
    judge("TreeEnsemble", [rows(aggregate).astype(dtype)], **stated, version=5)


def test_codes_of_transforms_are_those_of_the_standard() -> None:
    stated = stump_with_sets(np.array([1.5, np.nan, 8, np.nan], np.float32), n_targets=2, leaf_targetids=(0, 1, 0, 1))
    x = np.array([[1.5, 0]], np.float32)
    assert TreeEnsemble(x, **stated).tolist() == [[1, 0]]
    assert TreeEnsemble(x, **stated, post_transform=1)[0, 0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert TreeEnsemble(x, **stated, post_transform=2)[0, 1] == 0.5
    assert TreeEnsemble(x, **stated, post_transform=3).tolist() == [[1, 0]]
    assert TreeEnsemble(x, **stated, post_transform=4).tolist() == [[np.inf, -np.inf]]


def stump_with_sets(members, **more):
    """Two trees of one node each that ask whether a feature is in a set; the leaves say 1 and 0."""
    return {
        "nodes_modes": np.array([6, 6], np.uint8),
        "nodes_splits": np.zeros(2, np.float32),
        "leaf_weights": np.array([1, 0, 1, 0], np.float32),
        "membership_values": members,
        "n_targets": 1,
        "tree_roots": (0, 1),
        "nodes_featureids": (0, 1),
        "nodes_truenodeids": (0, 2),
        "nodes_trueleafs": (1, 1),
        "nodes_falsenodeids": (1, 3),
        "nodes_falseleafs": (1, 1),
        "leaf_targetids": (0, 0, 0, 0),
    } | more


def test_sets(judge) -> None:
    members = np.array([1.5, -2, np.nan, 7, 8, 9, np.nan], np.float32)
    x = np.array([[1.5, 8], [-2, 0], [7, 7], [np.nan, np.nan], [0, np.inf]], np.float32)
    assert TreeEnsemble(x, **stump_with_sets(members)).tolist() == [[2], [1], [1], [0], [0]]
    missing = stump_with_sets(members, nodes_missing_value_tracks_true=(1, 0))
    assert TreeEnsemble(x, **missing).tolist() == [[2], [1], [1], [1], [0]]
    whole = stump_with_sets(np.array([2, -2, np.nan, 7, 8, 9, np.nan], np.float32))  # all that ONNX Runtime takes
    stated = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in whole.items()}
    judge("TreeEnsemble", [np.array([[2, 8], [-2, 0], [7, 7], [0, 9]], np.float32)], **stated, version=5)
    with pytest.raises(InvalidInput, match="fewer sets than the 2 nodes"):
        TreeEnsemble(x, **stump_with_sets(members[:2]))


def test_ensemble_of_half_precision() -> None:
    members = np.array([1.5, np.nan, 8, np.nan], np.float16)
    y = TreeEnsemble(
        np.array([[1.5, 8]], np.float16), **stump_with_sets(members, leaf_weights=np.array([0.5, 0, 0.5, 0], np.float16))
    )
    assert (y.dtype, y.tolist()) == (np.float16, [[1.0]])


def test_targets_without_a_leaf_are_zero() -> None:
    members = np.array([1.5, np.nan, 8, np.nan], np.float32)
    for aggregate in range(4):
        y = TreeEnsemble(np.array([[1.5, 8]]), **stump_with_sets(members, n_targets=2, aggregate_function=aggregate))
        assert y.tolist() == [[2 if aggregate == 1 else 1, 0]]


def test_broken_trees() -> None:
    back = [[0, 0, "BRANCH_LEQ", 0, 0.5, 1, 1], [0, 1, "BRANCH_LEQ", 0, 0.5, 2, 1], [0, 2, "LEAF", 0, 0.0, 0, 0]]
    with pytest.raises(InvalidNetwork, match="lead back"):
        TreeEnsembleRegressor(X, **listed(back, "target", [(2, 0, 1.0)]))
    lost = [[0, 0, "BRANCH_LEQ", 0, 0.5, 1, 7], [0, 1, "LEAF", 0, 0.0, 0, 0]]
    with pytest.raises(InvalidNetwork, match="node 7 of decision tree 0 is not there"):
        TreeEnsembleRegressor(X, **listed(lost, "target", [(1, 0, 1.0)]))
    far = [[0, 0, "BRANCH_LEQ", 3, 0.5, 1, 1], [0, 1, "LEAF", 0, 0.0, 0, 0]]
    with pytest.raises(InvalidInput, match="feature 3 of 1"):
        TreeEnsembleRegressor(X, **listed(far, "target", [(1, 0, 1.0)]))
    with pytest.raises(InvalidInput, match="2 base values for 1 scores"):
        TreeEnsembleClassifier(X, **stump([(1, 0, 1.0)], classlabels_int64s=(1,), base_values=(1.0, 2.0)))
    with pytest.raises(Unsupported, match="MEDIAN"):
        TreeEnsembleRegressor(X, **listed(lost[1:], "target", []), n_targets=1, aggregate_function="MEDIAN")
