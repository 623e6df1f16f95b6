"""A client at the console: a customer who talks to the desk, and a person of the staff who approves refunds.

    python examples/support_desk/client.py ann "My teapot, order 7, came broken."      as Ann; "bob" is known, too
    python examples/support_desk/client.py ann                                         what was said so far
    python examples/support_desk/client.py staff                                       decides, one by one
    python examples/support_desk/client.py staff --all                                 approves all

Look at: it knows HTTP and nothing of agents. DESK_URL names a service that is not at http://127.0.0.1:8000.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import httpx
from httpx_sse import connect_sse

ADDRESS = os.environ.get("DESK_URL", "http://127.0.0.1:8000")


def service(user: str) -> httpx.Client:
    """A connection as this user."""
    return httpx.Client(base_url=ADDRESS, headers={"authorization": f"Bearer token-of-{user}"}, timeout=120)


def follow(http: httpx.Client, path: str, body: Mapping[str, object]) -> None:
    """Print what the desk writes while it writes it, and what waits at the end."""
    writing = False
    with connect_sse(http, "POST", path, json=dict(body)) as source:
        if source.response.is_error:
            source.response.read()
            print(f"  {source.response.text}")
            return
        for sse in source.iter_sse():
            event: dict[str, Any] = json.loads(sse.data)
            # (a chunk with nothing but a count of tokens has no delta)
            delta: dict[str, str] = event.get("delta") or {}
            if sse.event == "reasoning_chunk" and delta.get("type") == "text":
                print("" if writing else "  desk: ", delta["text"], sep="", end="", flush=True)
                writing = True
                continue
            if writing and sse.event in ("post_reasoning", "error"):
                writing = False
                print()
            if sse.event == "post_acting":
                print(f"  ({event['tool_use']['name']} is done)")
            elif sse.event == "post_call" and event["message"].get("generate_reason") == "approval_required":
                print("  (waits for approval)")
            elif sse.event == "error":
                print(f"  ({event['error_text']})")


def decide(http: httpx.Client, *, everything: bool) -> None:
    """The staff: show each call that waits, and answer it."""
    calls = http.get("/waiting").raise_for_status().json()
    for call in calls:
        shown = f"{call['user']}: {call['tool']} of order {call['order']}, because: {call['reason']}"
        if everything:
            print(f"  approve {shown}? yes")
            reason = ""
        else:
            print(f"  approve {shown}?")
            reason = input("  (an empty line approves; else the reason not to) ")
        follow(http, f"/waiting/{call['user']}/{call['chat']}", {"refuse": reason or None})
    if not calls:
        print("  nothing waits")


def main(user: str, *words: str) -> None:
    with service(user) as http:
        if user == "staff":
            decide(http, everything="--all" in words)
        elif words:
            follow(http, "/chat/1", {"text": " ".join(words)})
        else:
            print(*(f"  {line}" for line in http.get("/chat/1").raise_for_status().json()), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except httpx.HTTPStatusError as error:
        sys.exit(f"error: {error.response.text}")
    except httpx.TransportError as error:
        sys.exit(f"error: no answer of a service at {ADDRESS}: {error}")
    except (KeyboardInterrupt, EOFError):
        # what was not decided still waits
        sys.exit("\nstopped")
