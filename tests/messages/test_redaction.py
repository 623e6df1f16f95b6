"""Redaction: patterns that are left out for a text would have found nothing in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.messages import redaction
from agentscope_rx.messages.redaction import HIDDEN, redact_secrets

WORDS = [
    "api_key", "APIKEY", "Secret", "ſecret", "toKen", "passwd", "PASSWORD", "passphrase", "Authorization", "cookie",
    "Set-Cookie", "private-key", "accesſ_key", "account key", "SİGNATURE", "sıgnature", "auth_key", "Bearer", "basic",
    "sk-", "sk_live_", "whsec_", "AIza", "ya29.", "ghp_", "ghr_", "github_pat_", "glpat-", "hf_", "npm_", "pypi-",
    "dop_v1_", "xoxb-", "xapp-", "AKIA", "ABIA", "SG.", "eyJ", "-----BEGIN RSA PRIVATE KEY-----", "https://", "user:",
    "@host", "?sig", "&code", "?key", "=", ":", ' "', "'", "\n", ".", "a0" * 12, "Zx9vB3nM5kL7jH2g", " ",
]  # fmt: skip


def with_all_patterns(text: str) -> str:
    text = redaction._FORMS().sub(HIDDEN, text)
    for _, place in redaction._PLACES:
        text = place().sub(rf"\g<1>{HIDDEN}", text)
    return text


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=10).map("".join))
def test_no_pattern_is_left_out_in_vain(text: str) -> None:
    assert redact_secrets(text) == with_all_patterns(text)


def test_each_word_of_a_name_is_looked_for() -> None:
    for name in WORDS[:17]:
        assert "hunter2hunter2" not in redact_secrets(f'{{"{name}": "hunter2hunter2"}}') or name == "account key"
