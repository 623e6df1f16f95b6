"""Results against the output schemas of their tools: as the SDK asks, within the limits of foreign schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.schemas.foreign import ReadSchema, read_schema
from agentscope_rx.tools.schemas.guarded import TooComplexError
from agentscope_rx.tools.schemas.stepwise import found

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from mcp.client.session import ClientSession


class OutputValidator:
    """What the SDK uses of a validator of jsonschema's."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        self._read: ReadSchema = _read(name, schema)

    def iter_errors(self, value: object) -> Iterable[ValidationError]:
        try:
            return found(self._read, value)
        except TooComplexError as error:
            raise RuntimeError(
                f"The structured content of tool {self._name} is too complex to be checked: {error}"
            ) from None


def check_outputs(session: ClientSession) -> None:
    """Have the session check results within limits: its own validator is jsonschema's, on the loop's thread."""
    made: dict[str, tuple[dict[str, Any], OutputValidator]] = {}

    def validator(name: str, schema: dict[str, Any]) -> OutputValidator:
        known = made.get(name)
        if known is None or known[0] is not schema:
            known = made[name] = (schema, OutputValidator(name, schema))
        return known[1]

    # (no other place: the session makes its validators itself)
    vars(session)["_output_schema_validator"] = validator


def _read(name: str, schema: dict[str, Any]) -> ReadSchema:
    try:
        return read_schema(schema)
    except ConfigurationError as error:
        # how the SDK says that a schema is none
        raise RuntimeError(f"Invalid output schema of tool {name}: {error}") from None
