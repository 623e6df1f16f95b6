"""The jobs of a conversation as its saved state has them: the part "background".

running      in progress when this was saved: after a load it is in doubt, unless the same process still has it
ended        its result has not been given to the model yet
(gone)       its result is in memory
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.parts import Part

PART_NAME: Final = "background"


class JobRecord(TypedDict):
    """One job; `result` once it has ended. `path` is that of the run that has begun it, `at` the time of that."""

    job: str
    call: ToolUseBlock
    path: list[str]
    at: str
    state: Literal["running", "completed", "failed", "stopped", "in_doubt"]
    elapsed: float
    result: NotRequired[ToolResultBlock]


Records = Mapping[str, Mapping[str, object]]
"""The records as plain JSON, by id, in the order of their beginning."""


@cache
def _adapter() -> TypeAdapter[JobRecord]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(JobRecord)


def _dump(records: Records) -> object:
    return list(records.values())


def _read(data: object) -> Records:
    if not isinstance(data, list):
        raise InvalidInputError(f"The background work of this conversation is no list: {data!r:.60}.")
    items = cast("list[object]", data)
    return {record_of(each)["job"]: cast("Mapping[str, object]", each) for each in items}


def record_of(data: object) -> JobRecord:
    """The record that this plain JSON holds; `InvalidInputError` if it is none."""
    try:
        return _adapter().validate_python(data)
    except ValidationError as error:
        raise InvalidInputError(f"This is no record of background work: {error}") from error


def dump_record(record: JobRecord) -> Mapping[str, object]:
    """The record as plain JSON."""
    return cast("Mapping[str, object]", _adapter().dump_python(record, mode="json"))


RECORDS: Final[Part[Records]] = Part(PART_NAME, 1, {}, dump=_dump, read=_read)
