"""The pytest plugin, as a project of a user would have it."""

from __future__ import annotations

import sys

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]\n'


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # pytest wants to be the first to import a plugin, and here it is not the first pytest
    monkeypatch.delitem(sys.modules, "agentscope_rx.testing.pytest_plugin", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\nfilterwarnings = error\n")
    return pytester


def run(project: pytest.Pytester, code: str, *args: str) -> pytest.RunResult:
    project.makepyfile(code)
    return project.runpytest_inprocess(*args)


def test_marked_tests_run_in_virtual_time(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        import asyncio
        import pytest
        from hypothesis import given, strategies as st
        from agentscope_rx.testing import VirtualLoop, verify
        from agentscope_rx.reactive import timer

        @pytest.fixture
        def days():
            return 20

        @pytest.mark.virtual(limit=1e9)
        async def test_function(days):
            await asyncio.sleep(days * 86400)
            assert asyncio.get_running_loop().time() == days * 86400

        @pytest.mark.virtual
        class TestInAClass:
            async def test_method(self, days):
                assert isinstance(asyncio.get_running_loop(), VirtualLoop)
                record = await verify(timer(days)).expect_no_event(for_=days).expect_next(0).expect_completed()
                assert record.timeline == [(days, 0)]

            def test_that_is_not_async(self):
                assert asyncio._get_running_loop() is None

        @pytest.mark.virtual
        @given(seconds=st.integers(1, 9))
        async def test_property(seconds):
            await asyncio.sleep(seconds)
            assert asyncio.get_running_loop().time() == seconds
        """,
    )
    result.assert_outcomes(passed=4)


def test_what_a_marked_test_leaves_fails_it(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        import asyncio
        import pytest

        @pytest.mark.virtual
        async def test_timer():
            asyncio.get_running_loop().call_later(9, print)

        @pytest.mark.virtual(limit=5)
        async def test_limit():
            await asyncio.sleep(9)

        @pytest.mark.virtual
        async def test_assertion():
            assert 1 == 2
        """,
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*left after the end of the run*", "*5 s of virtual time have passed*"])


def test_the_fixture_runs_flows_and_coroutines(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        from agentscope_rx.reactive import just
        from agentscope_rx.testing import ScriptedModel
        from agentscope_rx import ReActAgent

        async def main():
            return 5

        def test_it(virtual):
            assert virtual(main()) == 5
            assert virtual(just(1, 2)) == 2
            assert virtual(ReActAgent("Friday", ScriptedModel("hello")).call("hi")).text == "hello"
        """,
    )
    result.assert_outcomes(passed=1)


def test_dropped_errors_fail_a_test_unless_it_takes_them(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        from agentscope_rx.reactive import throw

        def test_taken(virtual, dropped_errors):
            async def main():
                throw(ValueError("mine")).subscribe()
            virtual(main())
            assert repr(dropped_errors) == "[ValueError('mine')]"
            dropped_errors.clear()

        def test_left(virtual, dropped_errors):
            async def main():
                throw(ValueError("forgotten")).subscribe()
            virtual(main())
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*dropped: ValueError('forgotten')*"])


def test_it_is_switched_on_by_those_who_want_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(virtual): ...")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'virtual' not found*"])


def test_the_mark_is_described(project: pytest.Pytester) -> None:
    run(project, "", "--markers").stdout.fnmatch_lines(["*virtual(limit, patience)*"])
