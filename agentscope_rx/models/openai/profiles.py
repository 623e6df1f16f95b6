"""The known servers of Chat Completions, as data. Differences between the models of one vendor are not here.

A field has OpenAI's value unless the vendor documents another, or refuses OpenAI's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.openai.profile import Profile

OPENAI = Profile(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    hosts=("api.openai.com",),
    key="OPENAI_API_KEY",
    token_limit="max_completion_tokens",
    audio="data",
    files="data",
    native_output=True,
)
AZURE = OPENAI.but(
    name="azure",
    title="Azure OpenAI",
    models_of="openai",
    base_url=None,
    hosts=("openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"),
    key="AZURE_OPENAI_API_KEY",
    auth="api-key",
)
GENERIC = Profile(
    # takes OpenAI's fields and those that compatible servers have added: one of them may take any
    name="generic",
    title="this server",
    key="OPENAI_API_KEY",
    needs_key=False,
    audio="data",
    video=True,
    files="data",
    extras=True,
)
DEEPSEEK = Profile(
    # its thinking mode needs the thinking of every message with calls, and takes no forced choice; only /beta takes
    # `strict` of tools: see `endpoint_of`
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com",
    hosts=("deepseek.com",),
    key="DEEPSEEK_API_KEY",
    images=None,
    reasoning="calls",
    thinking="type",
    parallel=False,
    strict=False,
)
GLM = Profile(
    name="glm",
    title="GLM (Zhipu, Z.ai)",
    aliases=("zhipu", "zai"),
    base_url="https://open.bigmodel.cn/api/paas/v4",
    hosts=("bigmodel.cn", "z.ai"),
    key="ZHIPUAI_API_KEY",
    video=True,
    names=False,
    reasoning="calls",
    thinking="type",
    parallel=False,
    tool_choice=frozenset(("auto",)),
    strict=False,
    quirks=frozenset(("user_required",)),
)
QWEN = Profile(
    name="qwen",
    title="Qwen (compatible mode)",
    models_of="dashscope",
    aliases=("dashscope",),
    base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
    hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com", "maas.aliyuncs.com"),
    key="DASHSCOPE_API_KEY",
    audio="url",
    video=True,
    names=False,
    thinking="enable",
    top_k=True,
    tool_choice=frozenset(("auto", "none", "specific")),
    strict=False,
    cache_marks=True,
    quirks=frozenset(("video_frames",)),
)
MOONSHOT = Profile(
    # images by address only from its own file store; thinking models need the thinking of messages with calls
    name="moonshot",
    title="Moonshot (Kimi)",
    aliases=("kimi",),
    base_url="https://api.moonshot.cn/v1",
    hosts=("moonshot.cn", "moonshot.ai", "kimi.com"),
    key="MOONSHOT_API_KEY",
    images="data",
    video=True,
    reasoning="calls",
    thinking="type",
    parallel=False,
    strict=False,
)
MISTRAL = Profile(
    # a strict server: it refuses unknown fields
    name="mistral",
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    hosts=("mistral.ai",),
    key="MISTRAL_API_KEY",
    seed="random_seed",
    stream_usage=False,
    audio="plain",
    files="document",
    names=False,
    quirks=frozenset(("no_user_after_tool", "ids_of_nine", "media_in_results")),
)
GROQ = Profile(
    name="groq",
    title="Groq",
    base_url="https://api.groq.com/openai/v1",
    hosts=("groq.com",),
    key="GROQ_API_KEY",
    token_limit="max_completion_tokens",
    names=False,
    strict=False,
)
OPENROUTER = Profile(
    name="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    hosts=("openrouter.ai",),
    key="OPENROUTER_API_KEY",
    audio="data",
    video=True,
    files="any",
    reasoning="always",
    thinking="reasoning",
    top_k=True,
    cache_marks=True,
    extras=True,
)
XAI = Profile(
    name="xai",
    title="xAI",
    aliases=("grok",),
    base_url="https://api.x.ai/v1",
    hosts=("x.ai",),
    key="XAI_API_KEY",
    token_limit="max_completion_tokens",
    native_output=True,
    strict=False,
)
MINIMAX = Profile(
    # no documented choice of tools; thinking is apart from the text on demand, and must go back whole
    name="minimax",
    title="MiniMax",
    base_url="https://api.minimax.io/v1",
    hosts=("minimax.io", "minimaxi.com", "minimax.chat"),
    key="MINIMAX_API_KEY",
    token_limit="max_completion_tokens",
    names=False,
    reasoning="always",
    thinking="type",
    parallel=False,
    tool_choice=frozenset(("auto",)),
    strict=False,
    fields=(("reasoning_split", True),),
)
VOLCENGINE = Profile(
    name="volcengine",
    title="Volcengine Ark (Doubao)",
    aliases=("doubao", "ark"),
    base_url="https://ark.cn-beijing.volces.com/api/v3",
    hosts=("volces.com", "bytepluses.com"),
    key="ARK_API_KEY",
    video=True,
    names=False,
    reasoning="calls",
    thinking="type",
    strict=False,
)
OLLAMA = Profile(
    # its compatible endpoint; `OllamaChatModel` uses its own protocol
    name="ollama-compatible",
    title="Ollama (compatible endpoint)",
    aliases=("ollama",),
    base_url="http://localhost:11434/v1",
    hosts=("ollama.com",),
    key="OLLAMA_API_KEY",
    needs_key=False,
    names=False,
    images="data",
    reasoning="always",
    reasoning_field="reasoning",
    tool_choice=frozenset(("auto",)),
    parallel=False,
    strict=False,
)
VLLM = Profile(
    name="vllm",
    title="vLLM",
    base_url="http://localhost:8000/v1",
    key="VLLM_API_KEY",
    needs_key=False,
    audio="data",
    video=True,
    thinking="template",
    top_k=True,
    strict=False,
    extras=True,
)
LLAMA_CPP = Profile(
    # its server ignores the name of a tool, so only that tool is sent (see `models.openai.request`)
    name="llama.cpp",
    title="llama.cpp",
    aliases=("llamacpp",),
    base_url="http://localhost:8080/v1",
    key="LLAMA_API_KEY",
    needs_key=False,
    audio="data",
    thinking="template",
    top_k=True,
    tool_choice=frozenset(("auto", "none", "required")),
    strict=False,
    extras=True,
)

KNOWN = (
    *(OPENAI, AZURE, DEEPSEEK, GLM, QWEN, MOONSHOT, MISTRAL, GROQ, OPENROUTER, XAI, MINIMAX, VOLCENGINE, OLLAMA),
    *(VLLM, LLAMA_CPP),
    GENERIC,
)
PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in KNOWN})
"""By name."""


def profile_named(name: str) -> Profile:
    """The profile of this name; `ConfigurationError` lists the known ones."""
    wanted = name.lower()
    found = next((profile for profile in KNOWN if wanted == profile.name or wanted in profile.aliases), None)
    if found is None:
        raise ConfigurationError(
            f"There is no profile {name!r}. Known: {', '.join(PROFILES)}. Make your own from GENERIC.but(...)."
        )
    return found


def profile_of(host: str) -> Profile:
    """The profile of the server at this host; GENERIC for one that is not known."""
    host = host.lower()
    for profile in KNOWN:
        if any(host == domain or host.endswith(f".{domain}") for domain in profile.hosts):
            return profile
    return GENERIC
