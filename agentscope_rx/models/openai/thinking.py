"""`thinking_budget` on the wire: each server has a switch of its own, and few have a bound.

| switch      | who                 | 0                                  | n tokens                                    |
|-------------|---------------------|------------------------------------|---------------------------------------------|
| `type`      | DeepSeek and others | `thinking: {type: disabled}`       | `UnsupportedOptionError`                    |
| `enable`    | Qwen                | `enable_thinking: false`           | `enable_thinking: true, thinking_budget: n` |
| `reasoning` | OpenRouter          | `reasoning: {enabled: false}`      | `reasoning: {max_tokens: n}`                |
| `template`  | vLLM, llama.cpp     | the same in `chat_template_kwargs` | `UnsupportedOptionError`                    |
| none        | OpenAI and others   | `UnsupportedOptionError`           | `UnsupportedOptionError`                    |
"""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx.errors import UnsupportedOptionError
from agentscope_rx.models.openai.profile import Profile, ThinkingSwitch

_OFF: Mapping[ThinkingSwitch, dict[str, object]] = {
    "type": {"thinking": {"type": "disabled"}},
    "enable": {"enable_thinking": False},
    "reasoning": {"reasoning": {"enabled": False}},
    "template": {"chat_template_kwargs": {"enable_thinking": False}},
}


def thinking_fields(budget: int | None, profile: Profile) -> dict[str, object]:
    """The fields that bound a model's thinking, or turn it off; `UnsupportedOptionError` where there are none."""
    if budget is None:
        return {}
    if profile.thinking is None:
        raise UnsupportedOptionError(
            f"Chat Completions of {profile.title} has no thinking_budget. Use reasoning_effort, or "
            "additional_body_params with the field that your server knows.",
            option="thinking_budget",
        )
    if budget <= 0:
        return _OFF[profile.thinking]
    if profile.thinking == "enable":
        return {"enable_thinking": True, "thinking_budget": budget}
    if profile.thinking == "reasoning":
        return {"reasoning": {"max_tokens": budget}}
    raise UnsupportedOptionError(
        f"{profile.title} has a switch for thinking and no bound: thinking_budget=0 turns it off. For more or less of "
        "it use reasoning_effort, or leave the option out.",
        option="thinking_budget",
    )
