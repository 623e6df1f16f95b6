"""`MsgHub`: a group of agents, each of which hears what the others say."""

from agentscope_rx.pipeline.hub.msg_hub import MsgHub

__all__ = ["MsgHub"]
