"""Plain BM25 and plain vectors, which retrieval is compared with."""

from __future__ import annotations

from benchmarks.knowledge.plain import PlainBM25, PlainVectors, words


def test_chinese_is_split_to_characters_and_pairs():
    assert words("An App 试用期") == ["an", "app", "试", "用", "期", "试用", "用期"]


def test_rare_words_count_more_and_short_texts_too():
    texts = ["the cat sat", "the dog sat", "the dog and the dog and the dog", "the bird"]
    assert PlainBM25(texts).best("the cat", 2)[0] == 0
    assert PlainBM25(texts).best("bird", 5) == [3]
    assert PlainBM25(texts).best("whale", 5) == []


def test_nearest_vectors_come_first():
    vectors = PlainVectors([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert vectors.best([0.0, 1.0], 2) == [1, 2]
    assert vectors.best([1.0, 0.0], 9) == [0, 2, 1]
