"""`RequestGuard`: access rules and limits for the requests to any ASGI application.

    Starlette(routes, middleware=[Middleware(RequestGuard, options=GuardOptions(token=...))])

`create_app` and `mcp_app` have one already.
"""

from agentscope_rx.guard.guard import GuardOptions, RequestGuard

__all__ = ["GuardOptions", "RequestGuard"]
