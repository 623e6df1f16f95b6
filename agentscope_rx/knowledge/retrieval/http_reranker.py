"""`HttpReranker`: a reranking model behind an HTTP API.

| `api`        | POST                                                     | the scores are in                          |
|--------------|----------------------------------------------------------|--------------------------------------------|
| "cohere"     | https://api.cohere.com/v2/rerank                         | `results[].relevance_score`                |
| "jina"       | https://api.jina.ai/v1/rerank                            | the same                                   |
| "compatible" | `base_url` + /rerank: vLLM, llama.cpp, Xinference, ...   | the same                                   |
| "dashscope"  | .../services/rerank/text-rerank/text-rerank              | `output.results[].relevance_score`         |
| "tei"        | `base_url` + /rerank of Hugging Face's server            | `[].score`                                 |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.retrieval.reranking import Reranker, passage_text
from agentscope_rx.models.attempts import attempts
from agentscope_rx.models.checks import check_count, check_one_of, is_number
from agentscope_rx.models.dashscope.endpoint import endpoint_of
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.base_url import base_parts, secret
from agentscope_rx.models.wire.endpoint import Endpoint, bearer
from agentscope_rx.models.wire.json_codec import JsonObject, encode_json, malformed, object_in, objects_in
from agentscope_rx.reactive import Flow, concat_map, just

RerankApi = Literal["cohere", "jina", "compatible", "dashscope", "tei"]

_DEFAULTS: Final[Mapping[RerankApi, tuple[str, str]]] = {
    "cohere": ("https://api.cohere.com/v2", "COHERE_API_KEY"),
    "jina": ("https://api.jina.ai/v1", "JINA_API_KEY"),
}
_PATH: Final = "/rerank"
_GREATEST: Final = 1e300
"""A greater score is none that a model gives."""
_DASHSCOPE_PATH: Final = "/services/rerank/text-rerank/text-rerank"
_CONFIG: Final = ExecutionConfig(timeout=10.0, total_timeout=30.0)


class HttpReranker(Reranker):
    """Scores passages by the reranking model `model_name` behind an HTTP API.

    | `api` | POST | the scores are in |
    |---|---|---|
    | "cohere" | https://api.cohere.com/v2/rerank | `results[].relevance_score` |
    | "jina" | https://api.jina.ai/v1/rerank | the same |
    | "compatible" | `base_url` + /rerank: vLLM, llama.cpp, Xinference, ... | the same |
    | "dashscope" | .../services/rerank/text-rerank/text-rerank | `output.results[].relevance_score` |
    | "tei" | `base_url` + /rerank of Hugging Face's server | `[].score` |

    `api_key` comes from COHERE_API_KEY, JINA_API_KEY or DASHSCOPE_API_KEY when not given. "compatible" and "tei" need
    the `base_url` of a server; one that ends in /rerank or /reranks is the whole address. The model reads at most
    `max_chars` characters of a passage. `execution_config` has deadlines and retries: 3 attempts of 10 s by default, 30
    s for all of them.
    """

    def __init__(
        self,
        model_name: str,
        *,
        api: RerankApi = "cohere",
        base_url: str | None = None,
        api_key: str | None = None,
        max_chars: int = 8_000,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        check_one_of("api", api, ("cohere", "jina", "compatible", "dashscope", "tei"), optional=False)
        check_count("max_chars", max_chars)
        self.model_name = model_name
        self.api: RerankApi = api
        self.max_chars = max_chars
        self._url, self._headers = _server(api, base_url, api_key)
        self._config = (execution_config or ExecutionConfig()).over(_CONFIG)
        self._transport = transport or Transport()

    def rerank(self, query: str, passages: Sequence[Passage]) -> Flow[Sequence[float]]:
        if not passages:
            return just(())
        texts = [passage_text(each)[: self.max_chars] for each in passages]
        body = encode_json(self._body(query, texts)).encode("utf-8", "replace")
        request = HttpRequest(self._url, body, self._headers)

        def read(answer: object) -> Flow[Sequence[float]]:
            with self._transport.hiding(request):
                return just(self._scores(answer, len(texts)))

        def attempt() -> Flow[Sequence[float]]:
            return self._transport.request(request).pipe(concat_map(read))

        return attempts(attempt, self._config, self.model_name, self.api)

    def _body(self, query: str, texts: list[str]) -> dict[str, object]:
        if self.api == "tei":
            return {"query": query, "texts": texts, "truncate": True}
        if self.api == "dashscope":
            parameters = {"return_documents": False, "top_n": len(texts)}
            return {"model": self.model_name, "input": {"query": query, "documents": texts}, "parameters": parameters}
        body: dict[str, object] = {
            "model": self.model_name,
            "query": query,
            "documents": texts,
            "top_n": len(texts),
        }
        return body | {"return_documents": False} if self.api == "jina" else body

    def _scores(self, answer: object, count: int) -> Sequence[float]:
        """The scores in the order of the passages; `ProtocolError` for an answer without one for each."""
        field = "score" if self.api == "tei" else "relevance_score"
        scores: dict[int, float] = {}
        for item in self._results(answer):
            index, score = item.get("index"), item.get(field)
            if type(index) is not int or not 0 <= index < count or index in scores or not is_number(score):
                raise malformed(f"a result needs an index below {count}, each once, and a {field}", item)
            if not -_GREATEST <= score <= _GREATEST:
                raise malformed(f"a {field} must be a finite number", item)
            scores[index] = float(score)
        if len(scores) != count:
            raise malformed(f"{count} passages were sent, but there are {len(scores)} scores", answer)
        return [scores[index] for index in range(count)]

    def _results(self, answer: object) -> list[JsonObject]:
        if self.api == "tei":
            return objects_in({"results": answer}, "results")
        if not isinstance(answer, Mapping):
            raise malformed("it is not an object", answer)
        fields = cast("JsonObject", answer)
        return objects_in(object_in(fields, "output") or {} if self.api == "dashscope" else fields, "results")

    def __repr__(self) -> str:
        return f"HttpReranker({self.model_name!r}, api={self.api!r})"


def _server(api: RerankApi, base_url: str | None, api_key: str | None) -> tuple[str, Mapping[str, str]]:
    """The address of the service, and the headers of each request."""
    if api == "dashscope":
        endpoint = endpoint_of(base_url, api_key, None)
        return endpoint.url_with({}, _DASHSCOPE_PATH), endpoint.headers
    base, variable = _DEFAULTS.get(api, (None, ""))
    if base_url is None and base is None:
        raise ConfigurationError(f"api={api!r} needs the address of the server: base_url='http://...'.")
    key = secret(api_key, variable) if variable else api_key
    if key is None and base_url is None:
        raise ConfigurationError(f"No API key for {api}. Pass api_key=..., or set the environment variable {variable}.")
    parts = base_parts(base_url or base or "", base or "http://localhost:8000/v1")
    whole = parts.path.endswith((_PATH, f"{_PATH}s"))
    endpoint = Endpoint(parts if whole else parts._replace(path=parts.path + _PATH), key, bearer(key))
    return endpoint.url, endpoint.headers
