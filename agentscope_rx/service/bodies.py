"""The JSON body of a request, as a model."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.guard.body import is_closed
from agentscope_rx.service.failure import MalformedBodyError

LISTED_PROBLEMS = 1000

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request, kind: type[M], context: dict[str, object] | None = None) -> M:
    """The JSON of a request as this model; an empty body is an empty object."""
    return validated(await read_json(request), kind, context)


async def read_json(request: Request) -> object:
    """The JSON of a request; `MalformedBodyError` if the body is none."""
    return _parsed(await request.body())


def validated(given: object, kind: type[M], context: dict[str, object] | None = None) -> M:
    """The value as this model; `InvalidInputError` names the places that do not fit."""
    try:
        return kind.model_validate(given, context=context)
    except ValidationError as error:
        raise InvalidInputError(f"The body is invalid: {problems_of(error):.1000}") from None
    except RecursionError:
        raise InvalidInputError("The body is invalid: it is nested too deeply.") from None


def _parsed(raw: bytes) -> object:
    try:
        # not `json`: it decodes the whole text first, at four times the size if it has an emoji
        return from_json(raw or b"{}", allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        if "recursion limit" in str(error) and is_closed(raw):
            raise InvalidInputError("The body is nested too deeply.") from None
        raise MalformedBodyError(f"The body is not JSON: {error}") from None


def problems_of(error: ValidationError) -> str:
    """The problems of a body, each with its place."""
    if error.error_count() > LISTED_PROBLEMS:
        # the list would take many times the memory of the body
        return f"it has {error.error_count()} problems"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in found)
