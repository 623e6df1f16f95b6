"""The pages stay short: what is looked up belongs into docstrings and the reference."""

from __future__ import annotations

from tests.docs.words import MOST_WORDS, measure, total_words

PAGE = """# A title

A run is disposed by its reader. You stop it.

| stage | law |
|---|---|
| end | clean |

```python
print("not counted")
```
"""


def test_the_pages_are_short():
    assert 10_000 < total_words() <= MOST_WORDS


def test_words_without_code_and_sentences_of_prose():
    found = measure(PAGE)
    assert found.words == 16
    assert (found.sentences, found.sentence_words, found.passive) == (2, 10, 1)
