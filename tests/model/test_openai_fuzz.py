"""The SSE path under damage: whatever the bytes, an answer is whole, or the error is one of ours. Nothing else escapes.

python -m tests.model.test_openai_fuzz 600        fuzzes for so many seconds and says how many bodies it tried
"""

from __future__ import annotations

import json
import random
import sys
import time

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError
from agentscope_rx.message import Msg
from agentscope_rx.model.gather import Gather
from tests.model.test_openai_parser import CHUNKS, increments_of

BODY = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS).encode() + b"data: [DONE]\n\n"
SPICE = [
    b"data:", b"\n\n", b"\r", b"[DONE]", b"{", b"}", b"null", b"\xff", b"\xef\xbb\xbf", b'"index":-1,', b"1e999",
    b"\x00",
    b'"tool_calls":5,', b'"choices":{},', b'"content":[{"type":"text"}],', b'"\\ud800"', b"event: error\n", b"[" * 50,
]  # fmt: skip


def damaged(source: random.Random) -> bytes:
    """The body after a few accidents: bytes lost, doubled, moved, changed, or put in."""
    body = bytearray(BODY)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(body) + 1)
        to = min(len(body), at + source.choice([1, 1, 2, 10, 100]))
        kind = source.randrange(5)
        if kind == 0:
            del body[at:to]
        elif kind == 1:
            body[at:at] = body[at:to]
        elif kind == 2:
            piece = body[at:to]
            del body[at:to]
            place = source.randrange(len(body) + 1)
            body[place:place] = piece
        elif kind == 3 and at < len(body):
            body[at] = source.randrange(256)
        else:
            body[at:at] = source.choice(SPICE)
    return bytes(body)


def check(body: bytes, pieces: int) -> bool:
    """Read it; whether it was taken for an answer. What is gathered can be remembered and encoded."""
    size = max(1, len(body) // pieces)
    try:
        increments = increments_of([body[start : start + size] for start in range(0, len(body), size)])
    except ModelError:
        return False
    gather = Gather()
    for increment in increments:
        gather.feed(increment)
    message = Msg.assistant(gather.blocks())
    assert Msg.from_json(message.to_json()) == message
    return True


@given(st.integers(min_value=0), st.integers(1, 50))
def test_damage_gives_an_answer_or_an_error_of_ours(seed: int, pieces: int) -> None:
    check(damaged(random.Random(seed)), pieces)


@given(st.binary(max_size=300), st.integers(1, 300))
def test_noise_gives_an_error_of_ours(noise: bytes, pieces: int) -> None:
    check(noise, pieces)


def fuzz(seconds: float) -> tuple[int, int]:
    """How many bodies were tried, and how many were taken for answers."""
    source = random.Random()
    tried = taken = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = source.getrandbits(64)
        try:
            taken += check(damaged(random.Random(seed)), source.randint(1, 50))
        except Exception:
            sys.stderr.write(f"seed {seed}\n")
            raise
        tried += 1
    return tried, taken


if __name__ == "__main__":
    tried, taken = fuzz(float(sys.argv[1]))
    sys.stdout.write(f"{tried} bodies tried, {taken} taken for answers\n")
