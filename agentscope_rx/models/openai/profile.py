"""`Profile`: what a server of Chat Completions takes beyond, or instead of, OpenAI's own schema. Data, no code.

    OpenAIChatModel("deepseek-chat", profile="deepseek")        by name
    OpenAIChatModel("m", base_url="https://api.groq.com/...")   guessed from the host
    OpenAIChatModel("m", profile=GENERIC.but(images=None))      one's own

The known ones are in `profiles`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

ChoiceMode = Literal["auto", "none", "required", "specific"]

ALL_CHOICES: frozenset[ChoiceMode] = frozenset(("auto", "none", "required", "specific"))

ThinkingSwitch = Literal["type", "enable", "reasoning", "template"]
"""Where thinking is switched and bounded: see `thinking`."""

Quirk = Literal["user_required", "no_user_after_tool", "ids_of_nine", "media_in_results", "video_frames"]
"""`media_in_results`: tool messages hold images. `video_frames`: a video may be a list of images. The others: see
`models.openai.formatter`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A server's ways.

    | field                | says                                                                                      |
    |----------------------|-------------------------------------------------------------------------------------------|
    | aliases              | other names of it                                                                         |
    | models_of            | the provider whose models it serves, if that has rows of its own in `models.capabilities` |
    | base_url, hosts      | where it is; the domains by which it is known                                             |
    | key, needs_key, auth | the environment variable with its key, whether it must have one, which header carries it  |
    | token_limit, seed    | the names of these fields; None for one that it has not                                   |
    | stream_usage         | whether it is asked for the usage of a stream (`stream_options`); others refuse the field |
    | images               | "any": addresses and data; "data" only; None: none                                        |
    | audio                | "data": base64 and format; "url": addresses and data URLs; "plain": a string; None: none  |
    | video                | whether it takes `video_url`                                                              |
    | files                | "data": `file` with data; "any": or an address; "document": `document_url`; None: none    |
    | names                | whether messages may have a `name`; else it is said in words                              |
    | reasoning            | earlier thinking goes back: "never", "calls" (with messages that have calls), "always"    |
    | reasoning_field      | the field of a message that it reads earlier thinking from                                |
    | thinking             | the switch that `thinking_budget` turns (see `models.openai.request`); None: none         |
    | top_k, parallel      | whether it takes `top_k`, `parallel_tool_calls`                                           |
    | tool_choice          | the modes that it takes                                                                   |
    | native_output        | whether `response_format` of type json_schema holds answers to the schema, tools or not   |
    | strict               | whether it takes `strict` of a tool; others are not told                                  |
    | cache_marks          | whether parts of a message may be marked for its cache                                    |
    | fields               | what every request's body has, unless the options say otherwise                           |
    | extras               | whether it gets back what is not in OpenAI's schema, such as a gateway's `extra_content`  |
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
        """The same with these fields changed."""
        return replace(self, **changes)  # pyright: ignore[reportArgumentType]
