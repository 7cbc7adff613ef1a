"""Trees, linear models and what prepares their inputs, as converters of scikit-learn and others write them."""

import numpy as np

from ..building import sample

OURS = {"domains": {"ai.onnx.ml": 3}, "by_runtime": True}
ML = {"domain": "ai.onnx.ml"}
# Two trees of depth 2, by nodes: 0 asks, 1 and 2 ask or answer.
TREES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2], "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.1, -0.2, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
}
LEAVES_OF = [0, 0, 0, 1, 1], [2, 3, 4, 1, 2]


def leaves(kind: str, ids: list[int], weights: list[float]) -> dict:
    return {f"{kind}_treeids": LEAVES_OF[0], f"{kind}_nodeids": LEAVES_OF[1], f"{kind}_ids": ids, f"{kind}_weights": weights}


@sample(**OURS)
def trees(m):
    x = m.input(m.normal(4, 3))
    values = leaves("target", [0] * 5, [0.5, -1.0, 2.0, 0.25, -0.75])
    m("TreeEnsembleRegressor", x, n_targets=1, **TREES, **values, **ML)
    m("TreeEnsembleRegressor", x, n_targets=1, aggregate_function="AVERAGE", base_values=[0.5], **TREES, **values, **ML)
    votes = leaves("class", [0, 1, 2, 1, 0], [1.0, 0.5, 1.0, 0.75, 0.25])
    m("TreeEnsembleClassifier", x, classlabels_int64s=[10, 20, 30], post_transform="SOFTMAX", outputs=2, **TREES, **votes, **ML)
    binary = leaves("class", [0] * 5, [0.5, -1.0, 2.0, 0.25, -0.75])
    m("TreeEnsembleClassifier", x, classlabels_int64s=[0, 1], post_transform="LOGISTIC", outputs=2, **TREES, **binary, **ML)


@sample(**OURS)
def linear_models(m):
    x = m.input(m.normal(4, 3))
    weights = [float(value) for value in m.normal(9)]
    m("LinearRegressor", x, coefficients=weights[:3], intercepts=[0.5], **ML)
    m("LinearRegressor", x, coefficients=weights[:6], intercepts=[0.5, -0.5], targets=2, **ML)
    m("LinearClassifier", x, coefficients=weights, intercepts=[0.1, -0.1, 0.2], classlabels_ints=[3, 5, 7], post_transform="SOFTMAX",
      outputs=2, **ML)
    both = weights[:3] + [-value for value in weights[:3]]
    m("LinearClassifier", x, coefficients=both, intercepts=[0.1, -0.1], classlabels_ints=[0, 1], post_transform="LOGISTIC", outputs=2, **ML)


@sample(**OURS)
def prepared_features(m):
    x = m.input(m.normal(3, 2))
    m("Scaler", x, offset=[0.5, -0.5], scale=[2.0, 0.25], **ML)
    for norm in ("MAX", "L1", "L2"):
        m("Normalizer", x, norm=norm, **ML)
    m("Binarizer", x, threshold=0.2, **ML)
    m("Imputer", m.input(np.array([[1, np.nan], [np.nan, 2]], np.float32)), imputed_value_floats=[7.0, 8.0], replaced_value_float=float("nan"), **ML)
    m("FeatureVectorizer", x, m.input(m.normal(3, 1)), inputdimensions=[2, 1], **ML)
    m("ArrayFeatureExtractor", x, m.constant(np.array([1, 0, 1])), **ML)
    labels = m.input(np.array([3, 5, 4, 9]))
    m("OneHotEncoder", labels, cats_int64s=[3, 4, 5], zeros=1, **ML)
    m("LabelEncoder", labels, keys_int64s=[3, 5], values_floats=[0.5, 1.5], default_float=-1.0, **ML)
    m("LabelEncoder", labels, keys_int64s=[3, 5], values_int64s=[30, 50], default_int64=7, **ML)


@sample(**OURS)
def support_vectors(m):
    x = m.input(m.normal(3, 2))
    vectors = [float(value) for value in m.normal(8)]
    m("SVMRegressor", x, kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], support_vectors=vectors, n_supports=4, rho=[0.2],
      coefficients=[0.5, -0.25, 1.0, -1.0], **ML)
    m("SVMRegressor", x, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=[0.5, -0.25], rho=[0.1], **ML)


@sample(domains={"ai.onnx.ml": 5})
def tree_ensemble(m):
    """The newest form of trees."""
    from onnx import numpy_helper

    def values(*given):
        return numpy_helper.from_array(np.array(given, np.float32))
    m("TreeEnsemble", m.input(m.normal(4, 2)), n_targets=2, aggregate_function=1, post_transform=0, tree_roots=[0],
      nodes_modes=numpy_helper.from_array(np.array([0, 0, 0], np.uint8)), nodes_featureids=[0, 1, 0], nodes_splits=values(0.1, -0.3, 0.4),
      nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 3], nodes_falseleafs=[0, 1, 1],
      leaf_targetids=[0, 1, 0, 1], leaf_weights=values(5.2, 12.1, -12.2, 7.3), **ML)
