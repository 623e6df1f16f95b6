"""Gives the tests of this folder `@pytest.mark.virtual`. In a project of yours it stands in the topmost conftest.py."""

pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]
