"""`numbers_in`: which marks of a reply are read, in any language, and how long it may take."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.knowledge.citing.marks import numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It costs 5 euros [1].", (1,)),
        ("Both [1, 3] and [2][1].", (1, 3, 2)),
        ("Both [1;3] and [ 4 ].", (1, 3, 4)),
        ("From [2-4], [7\u20139] and [1-3, 8].", (2, 3, 4, 7, 8, 9, 1)),
        ("A long range [10-2000] has two ends, [5-2] too.", (10, 2000, 5, 2)),
        ("A footnote[^2].", (2,)),
        ("票价五元【1】，见【2，3】、[4、5]。", (1, 2, 3, 4, 5)),
        ("OpenAI's way 【6†guide.md】.", (6,)),
        ("First line\n[1]\n\nand [2](see below) is a link", (1,)),
        ("none: [0] [01] [1.5] [a] [1 a] \\[1\\] [x1] [] [1,] 1] [1", ()),
        ("`row[1]` and ``a ` b[2]`` but `open [3]", (3,)),
        ("```python\nrow[1]\n```\n[2]\n~~~\n[3]\n```\n[4]\n~~~\n[5]", (2, 5)),
        ("```\nnever closed [1]", ()),
        ("a ``` b [1] ``` c [2]", (2,)),
        ("[1](https://a.org/b) ![2](p.png) [see [3] here](x) <https://a/[4]> [5]", (5,)),
        ("Prices [here][1] are low [2].\n\n[1]: https://a.org", (2,)),
        ("It says so [1][2].\n\n[1]: https://a.org\n[2]: guide.md, page 3", (1, 2)),
        ("words[1]and[2]", (1, 2)),
        ("", ()),
    ],
)
def test_marks_that_are_read(text: str, numbers: tuple[int, ...]):
    assert numbers_in(text) == numbers


@given(st.lists(st.integers(1, 999), min_size=1, max_size=6), st.sampled_from(["[{}]", "\u3010{}\u3011", "[^{}]"]))
def test_every_number_is_found_once_in_order(numbers: list[int], mark: str):
    text = "Words. ".join(mark.format(each) for each in numbers)
    assert numbers_in(text) == tuple(dict.fromkeys(numbers))


@given(st.text("[]()`~\\ \n1,2-^!<>:a【】†", max_size=80))
def test_any_text_is_read_and_code_hides_its_marks(text: str):
    assert all(number > 0 for number in numbers_in(text))
    assert numbers_in(f"```\n{text.replace('`', '')}\n```") == ()


@pytest.mark.parametrize(
    "part", ["[", "[1", "[1]", "`", "[[x]", "[1](", "[a][1]", "1, ", "[1, ", "``[`", "<a:", "```\n"]
)
def test_no_text_takes_long(part: str):
    text = f"[1]: https://a.org\n{part * (200_000 // len(part))}"
    began = time.thread_time()
    numbers_in(text)
    assert time.thread_time() - began < 5
