"""`RequestGuard`: who may send requests to an ASGI application, and how much. For any ASGI application.

    Starlette(routes, middleware=[Middleware(RequestGuard, options=GuardOptions(token=...))])

`create_app` and `mcp_app` have one already.
"""

from agentscope_rx.guard.guard import RequestGuard
from agentscope_rx.guard.options import GuardOptions

__all__ = ["GuardOptions", "RequestGuard"]
