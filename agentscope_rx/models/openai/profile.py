"""`Profile`: how a server of Chat Completions differs from OpenAI's own schema. Data, no code.

    OpenAIChatModel("deepseek-chat", profile="deepseek")        by name
    OpenAIChatModel("m", base_url="https://api.groq.com/...")   guessed from the host
    OpenAIChatModel("m", profile=GENERIC.but(images=None))      your own

The known ones are in `profiles`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from agentscope_rx.frozen_values import dataclass

ChoiceMode = Literal["auto", "none", "required", "specific"]

ALL_CHOICES: frozenset[ChoiceMode] = frozenset(("auto", "none", "required", "specific"))

ThinkingSwitch = Literal["type", "enable", "reasoning", "template"]
"""The switch for thinking: see `models.openai.request`."""

Quirk = Literal["user_required", "no_user_after_tool", "ids_of_nine", "media_in_results", "video_frames"]
"""`media_in_results`: tool messages hold images. `video_frames`: a video may be a list of images. The others: see
`models.openai.formatter`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one server differs.

    | field                | meaning                                                                                   |
    |----------------------|-------------------------------------------------------------------------------------------|
    | aliases              | other names of the profile                                                                |
    | models_of            | the provider whose models it serves, for `models.capabilities` and token costs            |
    | base_url, hosts      | its address; the domains by which it is recognised                                        |
    | key, needs_key, auth | the environment variable with its key; it must have one; the header that carries it       |
    | token_limit, seed    | the names of these fields                                                                 |
    | stream_usage         | it takes `stream_options`, which ask for the usage of a stream                            |
    | images               | "any": addresses and data; "data" only; None: none                                        |
    | audio                | "data": base64 and format; "url": addresses and data URLs; "plain": a string; None: none  |
    | video                | it takes `video_url`                                                                      |
    | files                | "data": `file` with data; "any": or an address; "document": `document_url`; None: none    |
    | names                | messages may have a `name`; otherwise the text names the speaker                          |
    | reasoning            | earlier thinking goes back: "never", "calls" (with messages that have calls), "always"    |
    | reasoning_field      | the field of a message that it reads earlier thinking from                                |
    | thinking             | the switch that `thinking_budget` sets (see `models.openai.request`); None: none          |
    | top_k, parallel      | it takes `top_k`, `parallel_tool_calls`                                                   |
    | tool_choice          | the modes that it takes                                                                   |
    | native_output        | `response_format` of type json_schema holds answers to the schema, with and without tools |
    | strict               | it takes `strict` of a tool                                                               |
    | cache_marks          | parts of a message may be marked for its cache                                            |
    | fields               | in every request's body, unless the options set them                                      |
    | extras               | it takes fields back that OpenAI does not have, such as a gateway's `extra_content`       |
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    models_of: str | None = None
    base_url: str | None = None
    hosts: tuple[str, ...] = ()
    key: str | None = None
    needs_key: bool = True
    auth: Literal["bearer", "api-key"] = "bearer"
    token_limit: str = "max_tokens"
    seed: str = "seed"
    stream_usage: bool = True
    images: Literal["any", "data"] | None = "any"
    audio: Literal["data", "url", "plain"] | None = None
    video: bool = False
    files: Literal["data", "any", "document"] | None = None
    names: bool = True
    reasoning: Literal["never", "calls", "always"] = "never"
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    thinking: ThinkingSwitch | None = None
    top_k: bool = False
    parallel: bool = True
    tool_choice: frozenset[ChoiceMode] = ALL_CHOICES
    native_output: bool = False
    strict: bool = True
    cache_marks: bool = False
    fields: tuple[tuple[str, object], ...] = ()
    extras: bool = False
    quirks: frozenset[Quirk] = frozenset()

    def but(self, **changes: object) -> Profile:
        """A copy with these fields changed."""
        return replace(self, **changes)  # pyright: ignore[reportArgumentType]
