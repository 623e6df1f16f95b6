"""Permissions: rules that allow, ask about or deny tool calls; kept with a workspace, and held in sub-agents."""

from agentscope_rx.permissions.hook import PermissionsHook
from agentscope_rx.permissions.permission_rules import PermissionRules
from agentscope_rx.permissions.rule import PermissionRule
from agentscope_rx.permissions.rule_set import Decision, Mode, RuleSet, Verdict

__all__ = ["Decision", "Mode", "PermissionRule", "PermissionRules", "PermissionsHook", "RuleSet", "Verdict"]
