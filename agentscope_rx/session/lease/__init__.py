"""Leases: one holder of a session at a time, over all processes that use its store."""

from agentscope_rx.session.lease.machine import Machine, Process
from agentscope_rx.session.lease.policy import LeasePolicy, WhenHeld
from agentscope_rx.session.lease.record import LeaseHolder
from agentscope_rx.session.lease.session_lease import SessionLease

__all__ = ["LeaseHolder", "LeasePolicy", "Machine", "Process", "SessionLease", "WhenHeld"]
