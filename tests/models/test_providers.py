"""A provider is one row in one table; what its row does not bring is missing nowhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import agentscope_rx.models as models
from agentscope_rx.cli.exit_codes import _KEYS
from agentscope_rx.models import ChatModel, ModelRegistry
from agentscope_rx.models.capabilities import _TABLE, capabilities_of
from agentscope_rx.models.openai.profiles import KNOWN, profile_named
from agentscope_rx.models.providers import PROVIDERS, Provider, models_of
from agentscope_rx.models.tokens import COSTS_OF

ROOT = Path(__file__).parents[2]
ROOMS = ROOT / "agentscope_rx" / "models"
PAGE = (ROOT / "docs" / "reference" / "providers.md").read_text()
rows = pytest.mark.parametrize("row", PROVIDERS.values(), ids=list(PROVIDERS))


@rows
def test_a_row_names_a_model_that_is_exported(row: Provider) -> None:
    module, _, name = row.path.partition(":")
    assert issubclass(getattr(import_module(module), name), ChatModel)
    assert row.only or name in models.__all__


@rows
def test_a_provider_is_in_the_docs(row: Provider) -> None:
    assert f"`{row.name}`" in PAGE or f"`{row.name}:" in PAGE or f'"{row.name}:' in PAGE
    assert row.key is None or row.key in PAGE


def test_every_room_of_a_provider_has_a_row() -> None:
    rooms = {path.parent for path in ROOMS.glob("**/endpoint.py")} - {ROOMS / "wire"}
    packages = {f"agentscope_rx.models.{room.name}." for room in rooms}
    assert packages
    for package in packages:
        assert any(row.path.startswith(package) for row in PROVIDERS.values()), package


def test_what_is_known_by_provider_is_of_a_provider() -> None:
    assert {provider for provider, _ in _TABLE} <= set(PROVIDERS)
    assert set(COSTS_OF) <= set(PROVIDERS)
    assert set(_KEYS) <= set(PROVIDERS)
    assert {models_of(name) for name in PROVIDERS} <= set(PROVIDERS)
    assert set(PROVIDERS) <= set(ModelRegistry().providers)


def test_the_same_models_have_the_same_capabilities_and_costs() -> None:
    assert capabilities_of("azure", "gpt-5") == capabilities_of("openai", "gpt-5") is not None
    assert COSTS_OF["azure"] is COSTS_OF["openai"]
    assert COSTS_OF["qwen"] is COSTS_OF["dashscope"]
    assert models_of("unheard-of") == "unheard-of"


def test_an_alias_names_one_profile() -> None:
    names = [name for profile in KNOWN for name in (profile.name, *profile.aliases)]
    assert len(names) == len(set(names))
    assert profile_named("Kimi") is profile_named("moonshot")
