"""Random operators whose results are certain: where the spread is lost in rounding, or the odds leave no choice."""

import numpy as np

from ..building import sample


@sample(checked=False)
def certain_draws(m):
    """onnxruntime draws the opposite."""
    m("Bernoulli", m.input(np.array([0, 1, 1, 0], np.float32)))
    m("Bernoulli", m.input(np.array([0, 1], np.float64)), dtype=1)


@sample(by_runtime=True)
def certain_chances(m):
    m("Multinomial", m.input(np.array([[-1e9, 0, -1e9], [0, -1e9, -1e9]], np.float32)), sample_size=3)
    m("RandomNormal", shape=[2, 2], mean=1.5, scale=1e-30)
    m("RandomUniform", shape=[3], low=2.0, high=2.0)
    x = m.input(m.normal(2, 3))
    m("RandomNormalLike", x, mean=-0.5, scale=1e-30)
    m("RandomUniformLike", x, low=0.25, high=0.25)


@sample
def counted_words(m):
    """TF-IDF of numbers."""
    x = m.input(np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int32))
    pool = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
    m("TfIdfVectorizer", x, mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0, **pool)
    m("TfIdfVectorizer", x, mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=5, **pool)
