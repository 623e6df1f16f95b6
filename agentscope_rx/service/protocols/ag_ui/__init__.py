"""AG-UI for agents. Needs the extra `ag-ui`."""

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("ag_ui") is None:
    raise MissingExtraError("ag-ui-protocol", "ag-ui")

from agentscope_rx.service.protocols.ag_ui.routes import ag_ui_routes
from agentscope_rx.service.protocols.ag_ui.state import AgUiState

__all__ = ["AgUiState", "ag_ui_routes"]
