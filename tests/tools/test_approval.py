"""Which calls wait for a person: the toolkit's policy, then the tool's own mark; a rule that fails is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from calling import use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ApprovalError, ConfigurationError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import ExternalTool, Tool, Toolkit, tool


def transfer(amount: int, to: str = "me") -> str:
    """Send money."""
    return f"{amount} to {to}"


def marked(mark: bool | Callable[[Mapping[str, object]], bool]) -> Tool:
    return tool(name="transfer", requires_approval=mark)(transfer)


@pytest.mark.parametrize("mark", [True, False, lambda arguments: True, lambda arguments: False])
@pytest.mark.parametrize("answer", [True, False, None, "no policy"])
def test_the_policy_comes_first_then_the_mark(mark: object, answer: object):
    policy = None if answer == "no policy" else lambda call: answer
    toolkit = Toolkit([marked(mark)], approval=policy)  # pyright: ignore[reportArgumentType]
    own = mark if isinstance(mark, bool) else mark({})  # pyright: ignore[reportCallIssue]
    expected = answer if isinstance(answer, bool) else own
    assert toolkit.needs_approval(use("transfer", amount=1)) is expected


def test_a_tool_asks_for_nothing_unless_it_says_so():
    assert not Toolkit([transfer]).needs_approval(use("transfer", amount=1))


@given(st.integers(-1000, 1000))
def test_a_rule_sees_the_arguments_as_the_function_gets_them(amount: int):
    seen: list[Mapping[str, object]] = []

    def large(arguments: Mapping[str, object]) -> bool:
        seen.append(arguments)
        return arguments["amount"] > 100  # pyright: ignore[reportOperatorIssue]

    toolkit = Toolkit([marked(large)])
    # a model's number in quotes
    assert toolkit.needs_approval(use("transfer", amount=str(amount))) is (amount > 100)
    assert seen == [{"amount": amount}]


def test_a_policy_sees_the_call_as_the_model_made_it():
    seen: list[ToolUseBlock] = []

    def note(call: ToolUseBlock) -> bool:
        seen.append(call)
        return True

    call = use("transfer", amount="5")
    assert Toolkit([transfer], approval=note).needs_approval(call)
    assert seen == [call]


def test_a_rule_that_changes_its_arguments_changes_nothing_else():
    def spoil(arguments: Mapping[str, object]) -> bool:
        arguments.clear()  # pyright: ignore[reportAttributeAccessIssue]
        return False

    toolkit = Toolkit([marked(spoil)])
    call = use("transfer", amount=3)
    assert not toolkit.needs_approval(call)
    block = toolkit.call(call).run()
    assert isinstance(block, ToolResultBlock)
    assert block.text == "3 to me"


@pytest.mark.parametrize(
    "call",
    [
        use("transfr", amount=1),
        use("transfer"),
        use("transfer", amount="much"),
        use("transfer", amount=1, unknown=2),
        ToolUseBlock("1", "transfer", raw="{", input_error="eof"),
    ],
)
def test_a_call_that_cannot_run_needs_no_approval(call: ToolUseBlock):
    def never(call: object) -> bool:
        raise AssertionError("must not be asked")

    toolkit = Toolkit([marked(never)], approval=never)
    assert not toolkit.needs_approval(call)
    block = toolkit.call(call).run()
    assert isinstance(block, ToolResultBlock)
    assert block.is_error


async def later(call: object) -> bool:
    return True


def broken(call: object) -> bool:
    raise KeyError("rule")


class Callable_:
    async def __call__(self, call: object) -> bool:
        return True


@pytest.mark.parametrize("rule", [broken, lambda call: 1, lambda call: later(call), lambda call: "yes", Callable_()])
@pytest.mark.parametrize("where", ["policy", "mark"])
def test_a_broken_rule_is_an_error_naming_the_tool(rule: object, where: str):
    """Never silently yes or no: the engine cannot know what was meant."""
    toolkit = Toolkit([marked(rule)]) if where == "mark" else Toolkit([transfer], approval=rule)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ApprovalError, match="transfer") as caught:
        toolkit.needs_approval(use("transfer", "call-1", amount=1))
    assert (caught.value.tool, caught.value.call_id) == ("transfer", "call-1")


def test_a_tools_own_mark_cannot_defer_the_answer():
    with pytest.raises(ApprovalError, match="None"):
        Toolkit([marked(lambda arguments: None)]).needs_approval(use("transfer", amount=1))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("policy", [later, "always", True])
def test_a_policy_that_cannot_answer_is_refused_at_once(policy: object):
    with pytest.raises(ConfigurationError, match="approval"):
        Toolkit(approval=policy)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("mark", ["always", 1, None, later])
def test_a_mark_that_is_none_is_refused_where_it_is_given(mark: object):
    with pytest.raises(ConfigurationError, match="requires_approval"):
        marked(mark)  # pyright: ignore[reportArgumentType]


def test_a_tool_class_may_decide_in_a_method():
    class Delete(Tool):
        name = "delete"

        def __init__(self) -> None:
            self.requires_approval = self._elsewhere

        def _elsewhere(self, arguments: Mapping[str, object]) -> bool:
            return arguments.get("path") != "/tmp"

        def call(self, arguments: Mapping[str, object]) -> Flow[object]:
            return just("deleted")

    toolkit = Toolkit([Delete()])
    assert toolkit.needs_approval(use("delete", path="/"))
    assert not toolkit.needs_approval(use("delete", path="/tmp"))


def test_an_external_tool_may_need_approval_too():
    toolkit = Toolkit([ExternalTool("ring", requires_approval=True)])
    assert toolkit.needs_approval(use("ring"))


def test_a_method_keeps_its_marks_when_it_is_bound():
    class Bank:
        @tool(requires_approval=True, interruptible=False)
        def transfer(self, amount: int) -> int:
            return amount

    (bound,) = Toolkit([Bank()])
    assert bound.requires_approval is True
    assert bound.interruptible is False


def test_overlays_and_copies_keep_the_policy():
    toolkit = Toolkit([transfer], approval=lambda call: True)
    call = use("transfer", amount=1)
    assert toolkit.overlay().needs_approval(call)
    assert toolkit.copy().needs_approval(call)


def test_calls_are_interruptible_unless_they_say_otherwise():
    assert tool(transfer).interruptible
    assert not tool(interruptible=False)(transfer).interruptible
    assert ExternalTool("ring").interruptible


def test_calling_does_not_ask():
    """The caller has the approval already: the engine asks before."""
    block = Toolkit([marked(True)]).call(use("transfer", amount=1)).run()
    assert isinstance(block, ToolResultBlock)
    assert not block.is_error
