"""A method's name of another library is answered with ours; every other missing name with Python's own error."""

from __future__ import annotations

import traceback

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.agent.agent import ELSEWHERE
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import agent


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_of_another_library_is_answered(name: str):
    friday = agent(ScriptedModel())
    told = rf"no attribute '{name}'\. Use {ELSEWHERE[name]}\(\.\.\.\) and "
    with pytest.raises(AttributeError, match=told) as caught:
        getattr(friday, name)
    assert "Did you mean" not in "".join(traceback.format_exception(caught.value))
    assert not hasattr(friday, name)
    assert callable(getattr(friday, ELSEWHERE[name]))


def test_another_missing_name_has_the_error_of_python():
    with pytest.raises(AttributeError, match=r"^'ReActAgent' object has no attribute 'memry'$") as caught:
        agent(ScriptedModel()).memry
    assert caught.value.name == "memry"  # from which Python makes its "Did you mean: 'memory'?"


def test_a_faulty_property_of_a_subclass_keeps_its_own_error():
    class Older(ReActAgent):
        @property
        def age(self) -> int:
            return self.name.years

    with pytest.raises(AttributeError, match="'str' object has no attribute 'years'"):
        Older("Friday", ScriptedModel()).age


def test_a_subclass_may_have_such_a_method():
    class Runner(ReActAgent):
        def run(self) -> str:
            return self.name

    assert Runner("Friday", ScriptedModel()).run() == "Friday"
