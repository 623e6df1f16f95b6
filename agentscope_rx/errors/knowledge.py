"""Errors of knowledge bases: documents that cannot be read, stores that cannot be used."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError


class KnowledgeError(AgentScopeError):
    """A knowledge base could not read, index or retrieve."""


class DocumentError(KnowledgeError):
    """The document `document` could not be read. Nothing of it was indexed; its earlier version stays."""

    def __init__(self, document: str, what: str) -> None:
        super().__init__(f"{document}: {what}")
        self.document = document


class UnsupportedDocumentError(DocumentError):
    """There is no reader for a document of this kind."""


class DamagedDocumentError(DocumentError):
    """The document is damaged, or of another kind than its name says."""


class DocumentTooLargeError(DocumentError):
    """The document, or its unpacked content, is beyond a limit; `limit` names it."""

    def __init__(self, document: str, what: str, limit: str) -> None:
        super().__init__(document, what)
        self.limit = limit


class DocumentTimeoutError(DocumentError):
    """Reading the document took longer than the reader allows."""


class KnowledgeStorageError(KnowledgeError):
    """The store `store` could not be read or written; `__cause__` is its error. No half-written document is visible."""

    def __init__(self, store: str, reason: str, *, retryable: bool = False) -> None:
        super().__init__(f"The knowledge base {store} could not be used: {reason}.")
        self.store = store
        self.retryable = retryable


class KnowledgeFormatError(KnowledgeError):
    """The store `store` is of another program, a newer version or another embedding model; nothing was changed.

    `embedding` names the model of its vectors, if that differs, else ''.
    """

    def __init__(self, store: str, what: str, *, embedding: str = "") -> None:
        super().__init__(f"{store} is no knowledge base that can be used here: {what}")
        self.store = store
        self.embedding = embedding


class KnowledgeTimeoutError(KnowledgeError):
    """The knowledge base `base` gave no passages within `seconds`. Another attempt may succeed."""

    def __init__(self, base: str, seconds: float) -> None:
        super().__init__(f"The knowledge base {base!r} gave no passages within {seconds:g} s.")
        self.base = base
        self.seconds = seconds
        self.retryable = True


class EmptyKnowledgeError(KnowledgeError):
    """The knowledge base `base` has no documents, so nothing can be found; `store` is where it looks."""

    def __init__(self, base: str, store: str) -> None:
        super().__init__(
            f"The knowledge base {base!r} has no documents: {store} is empty. Check its path, or add documents, as in "
            "base.add(Path('notes.md')) or Indexer(base).folder('docs')."
        )
        self.base = base
        self.store = store


class RerankingError(KnowledgeError):
    """A reranker gave no usable scores for the passages."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The passages could not be reranked: {reason}.")
        self.reason = reason
