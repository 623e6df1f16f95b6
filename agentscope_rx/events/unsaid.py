"""Fields of an event that are its surroundings: they are no part of its JSON, and none of its equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.options import GenerateOptions, ToolSchema

UNSAID = (PlainValidator(lambda value: ()), PlainSerializer(lambda value: None))
"""Read back as nothing in a row."""
NOTHING = (PlainValidator(lambda value: None), PlainSerializer(lambda value: None))
"""Read back as None."""

History = Annotated[Sequence[Msg], *UNSAID]
Options = Annotated[GenerateOptions | None, *NOTHING]
Schema = Annotated[ToolSchema | None, *NOTHING]
Error = Annotated[Exception | None, *NOTHING]
