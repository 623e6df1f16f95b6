"""The errors of the library. Each is an `AgentScopeError`, and has its facts as attributes.

`retryable` is True if the same request may succeed later. Retry policies use only this attribute.

    AgentScopeError
    +-- ConfigurationError (ValueError)     an argument that cannot work; raised where it was given
    |   +-- UnsupportedOptionError          an option that a provider does not support; `option` names it
    |   +-- ToolDefinitionError             a callable that no schema can be made from
    |   +-- DuplicateToolError              two tools of one name
    |   +-- MissingExtraError               an optional package that is not installed
    |   +-- SetupError                      an external part (weights, server) that is missing or damaged
    +-- InvalidInputError (ValueError)      an invalid argument of call(), stream(), Msg, a block or a session
    |   +-- PendingCallsError               input that leaves pending calls open, where that is not allowed
    |   +-- EventVersionError               an event that a newer release has written
    |   +-- FrontMatterError                a Markdown file whose front matter cannot be used; `file`, `line`
    |   +-- SkillError                      a skill that cannot be read, saved or imported; `file`, `line`
    |   +-- SubAgentFileError               a file that declares no sub-agent that can be used; `file`, `line`
    +-- EventLogError                       a log of events that could not be opened, written or read; `file` names it
    |   +-- EventLineError                  a line of it that is not an event; `line` is its number
    +-- AgentBusyError                      a second call while the agent is running
    +-- QueuedCallInterruptedError          a call that was interrupted while it waited for its turn
    +-- RunEndedError                       input for a run that has ended, or is about to
    +-- InboxFullError                      too many inputs wait for one run
    +-- AgentShuttingDownError              a run that was refused or cut off by a shutdown; it can be resumed
    +-- RunStoppedError                     a shared run was stopped
    +-- EventsGoneError                     a shared run no longer keeps the events that are read
    +-- PoolClosedError                     a call through a ConversationPool that was closed
    +-- UsageLimitError                     a run would have gone past one of its limits
    +-- StepError                           a member of a pipeline has failed; `member`, `number` name the step
    +-- FanOutError                         members of a fan-out have failed; `errors`, `outcomes`
    +-- RoutingError                        a router has got no valid choice; `choice`, `members`
    +-- GoalNotReachedError                 a goal loop ended before its goal was reached; `outcome` says how
    +-- RunInsideLoopError                  run() on the thread of a running event loop
    +-- DeadlineError (TimeoutError)        a first, idle or total deadline passed
    |   +-- RunDeadlineError                the deadline of a whole run passed
    +-- AwaitCancelledError                 a task that code of a model or tool awaited was cancelled
    +-- ChannelFullError                    a channel with the FAIL policy was full
    +-- CompactionError                     a step of a compaction that could not make the conversation smaller
    +-- MemoryConflictError                 a stored conversation that another writer has changed
    +-- WorkersExhaustedError               abandoned blocking calls occupy all worker threads
    +-- UnheardMessageError                 members of a MsgHub could not take a message
    +-- UserInputError                      a person could not be asked, or gave no usable answer
    |   +-- EndOfInputError (EOFError)      the input has ended
    +-- HookError                           a hook returned a value that its event does not allow
    +-- GuardrailError                  a check of a GuardrailsHook has stopped the run
    +-- StructuredOutputError               the model gave no valid structured output
    +-- NoStructuredOutputError (LookupError)   structured() of a message without a structured value
    +-- ModelError                          a call of a model failed
    |   +-- ModelConnectionError            no connection, or it ended early
    |   +-- ModelTimeoutError               a deadline of the model call passed
    |   +-- ProtocolError                   an answer that the wire format does not allow
    |   |   +-- AnswerTooLargeError         an answer, an event or a line beyond its limit
    |   +-- EmptyResponseError              an answer with neither text nor tool call
    |   +-- BadAnswerError                  an answer that a check refused
    |   +-- CircuitOpenError                a model that has failed too often is not called for a while
    |   +-- ContentFilterError              the provider withheld the answer
    |   +-- PromptTooLongError              the least possible request exceeds a truncating model's limit
    |   +-- ModelHTTPError                  the provider answered with an error status
    |       +-- RedirectError               3xx to another origin, or another method
    |       +-- BadRequestError             400, 422 and other 4xx
    |       |   +-- ContextOverflowError    the conversation does not fit the model
    |       |   +-- PromptFilterError       the provider's filter refused the prompt; a ContentFilterError, too
    |       +-- AuthenticationError         401
    |       +-- PermissionDeniedError       403
    |       +-- NotFoundError               404
    |       +-- RateLimitError              429
    |       +-- ServerError                 5xx
    |           +-- OverloadedError         503, 529
    +-- ContextError (LookupError)          a RuntimeContext has no value of the requested type, or several
    +-- ApprovalError                       a rule that decides which calls need approval failed
    +-- SessionError                        saved state could not be written or read; `key` names the session
    |   +-- SessionValueError (ValueError)  a value that JSON has no form for
    |   +-- SessionConflictError            another writer has changed the session since it was read
    |   +-- SessionDamagedError             a file has changed since it was written
    |   +-- SessionFormatError              a file of a newer version of the library
    |   +-- SavedStateError                 saved state of another agent, or of a newer release
    |   +-- CheckpointError                 the history has no such checkpoint
    |   +-- ConversationLeasedError         another process is continuing the conversation
    |   +-- LeaseLostError                  the lease of a conversation was lost during its run
    |   +-- SessionLockedError              another process held the session's lock too long
    |   +-- SessionStorageError             the file system refused: full, no permission, ...
    |       +-- SessionServerError          a database server was not reached, or refused; is the change `unsure`?
    +-- KnowledgeError                      a knowledge base could not read, index or retrieve
    |   +-- DocumentError                   a document that could not be read; `document` names it
    |   |   +-- UnsupportedDocumentError    there is no reader for it
    |   |   +-- DamagedDocumentError        it is damaged, or of another kind than its name says
    |   |   +-- DocumentTooLargeError       it, or its unpacked content, is beyond a limit; `limit` names it
    |   |   +-- DocumentTimeoutError        reading it took too long
    |   +-- KnowledgeStorageError           its store could not be read or written
    |   +-- KnowledgeFormatError            its store is of another program, a newer version or another embedding model
    |   +-- KnowledgeTimeoutError           it gave no passages in time
    |   +-- EmptyKnowledgeError             it has no documents
    |   +-- RerankingError                  a reranker gave no score for each passage
    +-- LongTermMemoryError                 a long-term memory could not record or retrieve
    |   +-- LongTermMemoryStorageError      its database could not be read or written
    |   +-- LongTermMemoryFormatError       its database is of another program or a newer version
    |   +-- LongTermMemoryServiceError      the service behind it refused, or could not be reached
    |   +-- DistillationError               a model gave no usable facts
    +-- RequestError                        an HTTP request that is refused before it is processed
    |   +-- UnknownHostError                421: it names a host that is not the application's
    |   +-- ForeignOriginError              403: a web page of another origin sent it
    |   +-- RemoteClientError               403: no token is set, and it comes from another machine
    |   +-- UnauthorizedError               401: no token, or a wrong one
    |   +-- MediaTypeError                  415: the body is not declared as JSON
    |   +-- BodyTooLargeError               413
    |   +-- BodyTimeoutError                408
    |   +-- TooManyRequestsError            429
    +-- ToolError                           raised by a tool or for one; it becomes a result
        +-- SubAgentError                   a sub-agent's run failed
        +-- ToolSuspend                     not a failure: the call waits for a result from outside the run
        +-- ToolArgumentsError              `tool_arguments` of the caller do not fit the tool
        +-- PlanError                       a change of a plan that its rules do not allow
        +-- WorkspaceError                  a path that leads out of the workspace, or that cannot be used
        +-- CommandDeniedError              a command that is not allowed
        +-- McpError                        an MCP server refused a request; `server` names it
            +-- McpConnectionError          it cannot be reached, or the connection ended
            |   +-- McpLimitError           it sent more than a limit
            +-- McpClosedError              its client has been closed
"""

from __future__ import annotations

from agentscope_rx.errors.base import (
    AgentScopeError,
    AwaitCancelledError,
    ChannelFullError,
    ConfigurationError,
    DeadlineError,
    DuplicateToolError,
    InvalidInputError,
    MissingExtraError,
    RunInsideLoopError,
    SetupError,
    ToolDefinitionError,
    UnsupportedOptionError,
    WorkersExhaustedError,
)
from agentscope_rx.errors.event import EventLineError, EventLogError, EventVersionError
from agentscope_rx.errors.knowledge import (
    DamagedDocumentError,
    DocumentError,
    DocumentTimeoutError,
    DocumentTooLargeError,
    EmptyKnowledgeError,
    KnowledgeError,
    KnowledgeFormatError,
    KnowledgeStorageError,
    KnowledgeTimeoutError,
    RerankingError,
    UnsupportedDocumentError,
)
from agentscope_rx.errors.long_term_memory import (
    DistillationError,
    LongTermMemoryError,
    LongTermMemoryFormatError,
    LongTermMemoryServiceError,
    LongTermMemoryStorageError,
)
from agentscope_rx.errors.memory import CompactionError, MemoryConflictError
from agentscope_rx.errors.model import (
    AnswerTooLargeError,
    AuthenticationError,
    BadAnswerError,
    BadRequestError,
    CircuitOpenError,
    ContentFilterError,
    ContextOverflowError,
    EmptyResponseError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelTimeoutError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    PromptFilterError,
    PromptTooLongError,
    ProtocolError,
    RateLimitError,
    RedirectError,
    ServerError,
)
from agentscope_rx.errors.pipeline import GoalNotReachedError, RoutingError
from agentscope_rx.errors.request import (
    BodyTimeoutError,
    BodyTooLargeError,
    ForeignOriginError,
    MediaTypeError,
    RemoteClientError,
    RequestError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownHostError,
)
from agentscope_rx.errors.run import (
    AgentBusyError,
    AgentShuttingDownError,
    EndOfInputError,
    EventsGoneError,
    FanOutError,
    GuardrailError,
    HookError,
    InboxFullError,
    NoStructuredOutputError,
    PendingCallsError,
    PoolClosedError,
    QueuedCallInterruptedError,
    RunDeadlineError,
    RunEndedError,
    RunStoppedError,
    StepError,
    StructuredOutputError,
    UnheardMessageError,
    UsageLimitError,
    UserInputError,
)
from agentscope_rx.errors.session import (
    CheckpointError,
    ConversationLeasedError,
    LeaseLostError,
    SavedStateError,
    SessionConflictError,
    SessionDamagedError,
    SessionError,
    SessionFormatError,
    SessionLockedError,
    SessionServerError,
    SessionStorageError,
    SessionValueError,
)
from agentscope_rx.errors.skill import FrontMatterError, SkillError
from agentscope_rx.errors.sub_agents import SubAgentFileError
from agentscope_rx.errors.tool import (
    ApprovalError,
    CommandDeniedError,
    ContextError,
    McpClosedError,
    McpConnectionError,
    McpError,
    McpLimitError,
    PlanError,
    SubAgentError,
    ToolArgumentsError,
    ToolError,
    ToolSuspend,
    WorkspaceError,
)

__all__ = [
    "AgentBusyError",
    "AgentScopeError",
    "AgentShuttingDownError",
    "AnswerTooLargeError",
    "ApprovalError",
    "AuthenticationError",
    "AwaitCancelledError",
    "BadAnswerError",
    "BadRequestError",
    "BodyTimeoutError",
    "BodyTooLargeError",
    "ChannelFullError",
    "CheckpointError",
    "CircuitOpenError",
    "CommandDeniedError",
    "CompactionError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextError",
    "ContextOverflowError",
    "ConversationLeasedError",
    "DamagedDocumentError",
    "DeadlineError",
    "DistillationError",
    "DocumentError",
    "DocumentTimeoutError",
    "DocumentTooLargeError",
    "DuplicateToolError",
    "EmptyKnowledgeError",
    "EmptyResponseError",
    "EndOfInputError",
    "EventLineError",
    "EventLogError",
    "EventVersionError",
    "EventsGoneError",
    "FanOutError",
    "ForeignOriginError",
    "FrontMatterError",
    "GoalNotReachedError",
    "GuardrailError",
    "HookError",
    "InboxFullError",
    "InvalidInputError",
    "KnowledgeError",
    "KnowledgeFormatError",
    "KnowledgeStorageError",
    "KnowledgeTimeoutError",
    "LeaseLostError",
    "LongTermMemoryError",
    "LongTermMemoryFormatError",
    "LongTermMemoryServiceError",
    "LongTermMemoryStorageError",
    "McpClosedError",
    "McpConnectionError",
    "McpError",
    "McpLimitError",
    "MediaTypeError",
    "MemoryConflictError",
    "MissingExtraError",
    "ModelConnectionError",
    "ModelError",
    "ModelHTTPError",
    "ModelTimeoutError",
    "NoStructuredOutputError",
    "NotFoundError",
    "OverloadedError",
    "PendingCallsError",
    "PermissionDeniedError",
    "PlanError",
    "PoolClosedError",
    "PromptFilterError",
    "PromptTooLongError",
    "ProtocolError",
    "QueuedCallInterruptedError",
    "RateLimitError",
    "RedirectError",
    "RemoteClientError",
    "RequestError",
    "RerankingError",
    "RoutingError",
    "RunDeadlineError",
    "RunEndedError",
    "RunInsideLoopError",
    "RunStoppedError",
    "SavedStateError",
    "ServerError",
    "SessionConflictError",
    "SessionDamagedError",
    "SessionError",
    "SessionFormatError",
    "SessionLockedError",
    "SessionServerError",
    "SessionStorageError",
    "SessionValueError",
    "SetupError",
    "SkillError",
    "StepError",
    "StructuredOutputError",
    "SubAgentError",
    "SubAgentFileError",
    "TooManyRequestsError",
    "ToolArgumentsError",
    "ToolDefinitionError",
    "ToolError",
    "ToolSuspend",
    "UnauthorizedError",
    "UnheardMessageError",
    "UnknownHostError",
    "UnsupportedDocumentError",
    "UnsupportedOptionError",
    "UsageLimitError",
    "UserInputError",
    "WorkersExhaustedError",
    "WorkspaceError",
]
