"""Models by `provider:name`, and what is known of them."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models import GenerateOptions, ModelRegistry, OpenAIChatModel, get_model
from agentscope_rx.models import registry as registry_module
from agentscope_rx.models.capabilities import Capabilities, capabilities_of, common, providers_of
from agentscope_rx.models.openai.profiles import KNOWN
from agentscope_rx.models.wrappers import FallbackModel, RateLimitedModel
from agentscope_rx.testing import ScriptedModel

KEYS = ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.setenv(key, "k")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("openai:gpt-5-mini", "OpenAIChatModel", "gpt-5-mini"),
        (" openai : gpt-5-mini ", "OpenAIChatModel", "gpt-5-mini"),
        ("openai-responses:gpt-5-mini", "OpenAIResponsesModel", "gpt-5-mini"),
        ("dashscope:qwen-max", "DashScopeChatModel", "qwen-max"),
        ("anthropic:claude-sonnet-5", "AnthropicChatModel", "claude-sonnet-5"),
        ("gemini:gemini-2.5-flash", "GeminiChatModel", "gemini-2.5-flash"),
        ("ollama:llama3:8b", "OllamaChatModel", "llama3:8b"),
    ],
)
def test_providers(spec, kind, name):
    made = get_model(spec)
    assert (type(made).__name__, made.model_name) == (kind, name)


@pytest.mark.parametrize("profile", [profile for profile in KNOWN if profile.name not in ("openai", "generic")])
def test_a_profile_is_a_provider(profile, monkeypatch):
    monkeypatch.setenv(profile.key, "k")
    options = {"base_url": "https://x.openai.azure.com"} if profile.base_url is None else {}
    made = get_model(f"{profile.name}:m", **options)
    assert (type(made), made.profile, made.provider) == (OpenAIChatModel, profile, profile.name)


def test_options_are_the_classs_own():
    options = GenerateOptions(seed=1)
    made = get_model("openai:m", base_url="http://h/v1", options=options)
    assert (made.endpoint.url, made.options) == ("http://h/v1/chat/completions", options)
    with pytest.raises(TypeError, match="nonsense"):
        get_model("openai:m", nonsense=1)


def test_a_missing_key_is_the_models_own_error(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigurationError, match="No API key for OpenAI"):
        get_model("openai:gpt-5-mini")


def test_a_key_is_looked_for_each_time(monkeypatch):
    """(A cache would not see a key that was changed.)"""
    first = get_model("openai:m")
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    second = get_model("openai:m")
    assert (first.endpoint.api_key, second.endpoint.api_key) == ("k", "other")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "named provider:name, such as openai:gpt-5-mini"),
        (None, "named provider:name"),
        ("gpt-5-mini", "such as openai:gpt-5-mini, not 'gpt-5-mini'"),
        ("qwen3-max", "such as dashscope:qwen3-max, not"),
        ("unheard-of", "such as openai:unheard-of, not"),
        ("openai", "names a provider but no model, as in openai:NAME"),
        ("openai:", "names a provider but no model, as in openai:NAME"),
        ("opneai:x", "no model provider 'opneai' .* Did you mean openai"),
        ("OpenAI:x", "Did you mean openai"),
        ("zzz:x", r"no model provider 'zzz' \(in 'zzz:x'\)\. Known are anthropic, .*base_url"),
        ("local:other", "one embedded model, local:smollm2, and no 'other'"),
    ],
)
def test_what_is_no_model(spec, says):
    with pytest.raises(ConfigurationError, match=says):
        get_model(spec)


@pytest.mark.spec("case 130")
def test_ones_own_providers():
    registry = ModelRegistry(packages=False)
    registry.register_provider("mine", lambda name, /, **options: ScriptedModel(model_name=name, **options))
    made = registry.model("mine:m", output_modes=("native",))
    assert (made.model_name, made.output_modes) == ("m", frozenset(("native",)))
    assert "mine" in registry.providers and "mine" not in ModelRegistry(packages=False).providers
    for taken in ("mine", "openai"):
        with pytest.raises(ConfigurationError, match=f"Provider '{taken}' is registered already"):
            registry.register_provider(taken, ScriptedModel)
    for name in ("", "a:b", " x", 5):
        with pytest.raises(ConfigurationError, match="a word without a colon"):
            registry.register_provider(name, ScriptedModel)
    with pytest.raises(ConfigurationError, match="needs a function"):
        registry.register_provider("x", "y")
    registry.register_provider("odd", lambda name, /, **options: name)
    with pytest.raises(ConfigurationError, match="'odd' must return a ChatModel for 'm', not 'm'"):
        registry.model("odd:m")


def test_the_default_registry(monkeypatch):
    monkeypatch.setattr(registry_module, "REGISTRY", ModelRegistry(packages=False))
    registry_module.register_provider("mine", lambda name, /, **options: ScriptedModel("hi", model_name=name))
    assert ReActAgent("Friday", "mine:m").call("hello").run().text == "hi"


def test_providers_of_installed_packages(monkeypatch):
    entry = EntryPoint("theirs", f"{__name__}:theirs", registry_module.GROUP)
    monkeypatch.setattr(
        registry_module, "entry_points", lambda group: [entry] if group == registry_module.GROUP else []
    )
    assert ModelRegistry().model("theirs:m").model_name == "m"
    with pytest.raises(ConfigurationError, match="no model provider 'theirs'"):
        ModelRegistry(packages=False).model("theirs:m")


def theirs(name: str, /, **options: object) -> ScriptedModel:
    return ScriptedModel(model_name=name)


def test_an_agent_takes_a_name():
    assert isinstance(ReActAgent("Friday", "openai:gpt-5-mini").model, OpenAIChatModel)
    with pytest.raises(ConfigurationError, match="such as openai:gpt-5-mini, not 'gpt-5-mini'"):
        ReActAgent("Friday", "gpt-5-mini")


# --- what is known -------------------------------------------------------------------------------------------------


def test_capabilities_are_looked_up_and_never_guessed():
    known = get_model("openai:gpt-5-mini").capabilities
    assert known is not None
    assert (known.context_window, known.max_output, known.images, known.audio) == (400_000, 128_000, True, False)
    assert capabilities_of("openai", "gpt-5-mini-2025-08-07") == known
    assert capabilities_of("anthropic", "claude-haiku-4-5-20251001") == capabilities_of("anthropic", "claude-haiku-4-5")
    assert capabilities_of("openai-responses", "gpt-5") == capabilities_of("openai", "gpt-5")
    for provider, name in [("openai", "gpt-5-turbo"), ("openai", "gpt-5-mini-x"), ("x", "gpt-5"), ("openai", "")]:
        assert capabilities_of(provider, name) is None
    assert ScriptedModel().capabilities is None
    assert providers_of("gpt-5-2025-08-07") == ("openai",) and providers_of("x") == ()


def test_models_around_models_know_them():
    mini, old = get_model("openai:gpt-5-mini"), get_model("openai:gpt-4o")
    assert RateLimitedModel(mini, max_concurrency=1).capabilities == mini.capabilities
    both = FallbackModel(mini, old).capabilities
    assert both is not None
    assert (both.context_window, both.max_output, both.thinking, both.images) == (128_000, 16_384, False, True)
    assert FallbackModel(mini, ScriptedModel()).capabilities is None
    unsaid = common([Capabilities(context_window=5), Capabilities()])
    assert unsaid == Capabilities()
