"""What an import of the library loads, and what waits for its first use: tested in processes of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.test_public import LAZY

ROOMS = ["agentscope_rx.testing", "agentscope_rx.tracing", "agentscope_rx.models", *LAZY]

LATE = {
    # at the first request
    "httpx",
    "httpcore",
    "h11",
    "http.client",
    # with the first adapter or model that pydantic builds, for which it looks for plugins
    "importlib.metadata",
    # for a schema that is no function's
    "jsonschema",
    # with the first tool that has a docstring
    "docstring_parser",
    # few agents use these
    "agentscope_rx.agent.background.tools",
    "agentscope_rx.agent.pool.conversation_pool",
    "agentscope_rx.agent.user",
    "agentscope_rx.events._record",
    "agentscope_rx.events.schema",
    "agentscope_rx.knowledge",
    "agentscope_rx.long_term_memory",
    "agentscope_rx.planning",
    "agentscope_rx.session.json_session",
    "agentscope_rx.session.urls",
    "agentscope_rx.tools.questions",
}
"""What would take much of the time that `import agentscope_rx` takes."""


def in_process(code: str) -> str:
    """What the code prints in a new interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def loaded_by(code: str) -> set[str]:
    """The modules that the code loads, without those that the interpreter has loaded at its start."""
    return set(in_process(f"import sys; begun = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - begun))").split())


def test_the_core_leaves_for_later_what_takes_time() -> None:
    loaded = loaded_by("import agentscope_rx")
    assert "agentscope_rx.agent.react.react_agent" in loaded
    assert not LATE & loaded


def test_an_agent_without_extras_loads_no_more() -> None:
    code = "from agentscope_rx import ReActAgent; from agentscope_rx.testing.scripted_model import ScriptedModel"
    made = loaded_by(f"{code}\nReActAgent('a', ScriptedModel('Hi.'))")
    assert not (LATE - {"agentscope_rx.agent.background.tools", "importlib.metadata"}) & made


def test_httpx_waits_for_the_first_request() -> None:
    names = ("anthropic", "dashscope", "gemini", "ollama", "openai", "openai.responses")
    assert not {"httpx", "httpcore"} & loaded_by(
        "\n".join(f"import agentscope_rx.models.{name}.model" for name in names)
    )


def test_no_long_pattern_is_compiled_by_the_import() -> None:
    compiled = in_process(
        "import re\nlengths = []\nplain = re.compile\n"
        "def seen(text, flags=0):\n    lengths.append(len(text))\n    return plain(text, flags)\n"
        "import pydantic, reactivex, tenacity, docstring_parser, asyncio, logging\nre.compile = seen\n"
        "import agentscope_rx\nprint(max(lengths))"
    )
    assert int(compiled) < 120


def test_the_import_compiles_the_methods_of_few_values() -> None:
    code = """
import gc, agentscope_rx
from agentscope_rx.frozen_values import _LateMethod
kinds = [each for each in gc.get_objects() if isinstance(each, type) and each.__module__.startswith("agentscope_rx.")]
inits = [vars(each).get("__init__") for each in kinds if "__dataclass_params__" in vars(each)]
print(sum(isinstance(each, _LateMethod) for each in inits), len(inits))
"""
    late, all_ = map(int, in_process(code).split())
    assert late > 90
    assert late > all_ / 2


def test_completion_shows_names_before_they_are_imported() -> None:
    code = f"""
from importlib import import_module
for room in map(import_module, {ROOMS}):
    assert set(room.__all__) <= set(dir(room)), room
print(set(room._LAZY) & set(vars(room)))
"""
    assert in_process(code).split() == ["set()"]


def test_two_threads_use_a_lazy_name_at_once() -> None:
    code = """
import agentscope_rx, threading
found, gate = [], threading.Barrier(8)
def use(name):
    gate.wait()
    found.append(getattr(agentscope_rx, name))
names = ["PlanMode", "TodoList", "KnowledgeBase", "MsgHub"] * 2
threads = [threading.Thread(target=use, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(map(id, found))))
"""
    assert in_process(code).split() == ["8", "4"]


def test_two_loops_make_their_first_request_at_once() -> None:
    code = """
import asyncio, threading
from agentscope_rx.models.transport import http
found, gate = [], threading.Barrier(4)
def use():
    gate.wait()
    found.append(asyncio.run(http._opening()))
threads = [threading.Thread(target=use) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(map(id, found))), found[0].__name__)
"""
    assert in_process(code).split() == ["4", "1", "opened"]
