"""The tools that every agent of the command line has: the library's file tools, read-only, and date and time."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from agentscope_rx.errors import ToolError
from agentscope_rx.tools import Toolkit, tool
from agentscope_rx.tools.files import FileTools, Workspace


def builtin_tools(root: str | os.PathLike[str] = ".") -> Toolkit:
    """The tools, with `root` as the folder whose files they see."""
    return Toolkit([FileTools(Workspace(root, portable=False), read_only=True), current_time])


@tool
def current_time(
    timezone: Annotated[str, Field(description="An IANA time zone.", examples=["Europe/Paris"])] = "UTC",
) -> str:
    """Tell the current time: the hour, the date today, the day of the week, now, in a city or time zone."""
    name = _zone_name(timezone)
    now = datetime.now(UTC if name == "UTC" else ZoneInfo(name))
    return f"{now:%A}, {now.day} {now:%B %Y}, {now:%H:%M} {name}"


def _zone_name(asked: str) -> str:
    """The IANA name that is meant: itself, in any case, or the zone of a city."""
    plain = "_".join(asked.split()).lower()
    if plain in ("", "utc", "gmt", "z"):
        return "UTC"
    zones = _zones()
    if plain in zones:
        return zones[plain]
    cities = {name.rpartition("/")[2]: full for name, full in zones.items()}
    city = plain.rpartition("/")[2].partition(",")[0]
    if city in cities:
        return cities[city]
    close = get_close_matches(city[:80], cities, 3)
    hint = f" Similar ones: {', '.join(cities[each] for each in close)}." if close else ""
    raise ToolError(f"There is no time zone {asked!r:.80}.{hint} Use a name such as Europe/Paris.")


@cache
def _zones() -> dict[str, str]:
    try:
        # the plain names last: they win over links of older days, such as Asia/Tokyo over Japan/Tokyo
        return {name.lower(): name for name in sorted(available_timezones(), key=lambda name: name.count("/") == 1)}
    except (OSError, ZoneInfoNotFoundError):
        return {}
