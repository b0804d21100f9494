"""Tools as all but their authors see them: name, schema, the effect of running twice, and the outcome of a call."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pentad.contracts.suspensions import Suspension

TIMEOUT_S = 60.0
"""Seconds that a call may take if its tool has no time limit of its own."""


class Effect(StrEnum):
    """The effect of a call on the world, which decides what may happen after a crash (law 10)."""

    PURE = "pure"
    """The call only reads, and may run any number of times."""
    IDEMPOTENT = "idempotent"
    """A second run with the same idempotency key has no further effect: the call may be retried."""
    UNSAFE = "unsafe"
    """The call must never run twice: if its outcome is unknown, it is reported as unknown."""


Approval = Literal["never", "always", "ask_if"]
"""Wish of a tool about approvals: no person is asked, one must allow each call, or a function of the tool's decides
which calls a person must allow."""
OnUnknown = Literal["tell", "ask"]
"""Who is told of an unsafe call with an unknown outcome: the model, or first a person, who may know it."""
ApprovalMode = Literal["never", "unsafe", "all"]
"""Calls that need an approval although their tool does not ask for one: none, unsafe ones, or all."""


MAX_LIMIT = 10_000
"""Calls that a limit of a tool may name at most."""
DEFAULT_BREAKER = "5/min"
"""Failures in a row within a time, after which calls of a tool that does not say otherwise are refused for a while."""
_WINDOWS_MS = {"s": 1_000, "min": 60_000, "h": 3_600_000}
RateText = Annotated[str, StringConstraints(pattern=r"^(?:[1-9][0-9]{0,3}|10000)/(?:s|min|h)$")]
"""Number of calls within a time: ``10/min``, also with ``s`` and ``h``."""


class Rate(NamedTuple):
    """A number of calls within a time."""

    calls: int
    window_ms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the rate that a `RateText` says."""
        calls, _, unit = text.partition("/")
        return cls(int(calls), _WINDOWS_MS[unit])


@dataclass(frozen=True, slots=True)
class CallLimit:
    """A limit of the calls of one tool, or of several that count together, over all workers."""

    name: str
    """Name under which the calls are counted."""
    concurrency: int | None = None
    """Calls that run at once; None: any number."""
    rate: str | None = None
    """Calls that begin within a time, as a `RateText`; None: any number."""

    @property
    def told(self) -> str:
        """The limit in words."""
        at_once = () if self.concurrency is None else (f"{self.concurrency} at once",)
        return ", ".join((*at_once, *(() if self.rate is None else (self.rate,))))


class ToolSpec(BaseModel):
    """A tool as tool-workers publish it and as the model is told about it."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    effect: Effect = Effect.UNSAFE
    timeout: float = Field(default=TIMEOUT_S, gt=0)
    """Seconds, counted from the start of the call."""
    queue: str = Field(default="default", pattern=r"^[a-z0-9-]{1,32}$")
    isolated: bool = False
    """Whether each call has a process of its own."""
    approval: Approval = "never"
    """Whether a person must allow a call before it is made."""
    on_unknown: OnUnknown = "tell"
    """Who is told when the outcome of a call is unknown."""
    reconciles: bool = False
    """Whether the tool can look up what has become of a call whose outcome is unknown."""
    after: list[Annotated[str, StringConstraints(max_length=64)]] = Field(default_factory=list, max_length=64)
    """Tools whose calls in the same answer have to end before a call of this one is made."""
    missing_env: list[str] = Field(default_factory=list)
    """Variables that the tool reads and that are not set where its tool-worker runs."""
    secrets: list[str] = Field(default_factory=list)
    """Names of the secrets that the tool needs: it is offered to users who have all of them."""
    registered: bool = False
    """Whether the tool is an HTTP endpoint that was registered while the system ran."""
    client: bool = False
    """Whether the client that has sent the turn's message runs the tool, and no tool-worker."""
    concurrency: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    """Calls of the tool that run at once, over all workers; None: any number."""
    rate: RateText | None = None
    """Calls of the tool that begin within a time, over all workers; None: any number."""
    limited_as: str = Field(default="", max_length=128)
    """Name under which tools of one server count together for `concurrency` and `rate`; empty: the tool's own name."""
    breaker: RateText | None = None
    """Failures in a row within a time, after which calls are refused for a while; None: calls are always made."""

    @property
    def guarded(self) -> bool:
        """Whether something is asked before a call is made: a limit, or a breaker."""
        return self.concurrency is not None or self.rate is not None or self.breaker is not None

    @property
    def limit(self) -> CallLimit | None:
        """Limit of the tool's calls; None: it has none."""
        if self.concurrency is None and self.rate is None:
            return None
        return CallLimit(self.limited_as or self.name, self.concurrency, self.rate)

    def approval_reason(self, mode: ApprovalMode) -> str:
        """Return why a person must allow a call of this tool; '' when nobody is asked."""
        if self.approval == "always":
            return "the tool asks for an approval of each call"
        if mode == "all":
            return "every tool call needs an approval here"
        return "unsafe tool calls need an approval here" if mode == "unsafe" and self.effect is Effect.UNSAFE else ""


SERVER_SEPARATOR = "__"
"""Characters between the name of a server and the server's own name of a tool, in the name of the tool."""
TOOL_SEARCH = "tool_search"
"""Name of the tool that finds tools whose schemas a model is not shown."""
RESERVED_NAMES = frozenset({"ask_user", "complete_task", TOOL_SEARCH})
"""Names of the tools that the task-runner answers itself: tools of workers may have any other name."""
MEMORY_SEARCH, MEMORY_EXPAND, MEMORY_FORGET = "memory_search", "memory_expand", "memory_forget"
RESULT_READ = "result_read"
"""Name of the built-in tool that reads the rest of a result of which a prompt has only a part."""
RECALLING_TOOLS = frozenset({MEMORY_SEARCH, MEMORY_EXPAND, MEMORY_FORGET})
"""Names of the built-in tools that show memories: neither their arguments nor their results are remembered."""
FORMER_NAMES = {"current_time": "get_time"}
"""Tools that had other names once: who asks for one by its former name gets it, and nobody is offered that name."""
OutcomeKind = Literal[
    "ok", "error", "timeout", "cancelled", "crashed", "interrupted", "unknown", "suspended", "refused"
]


class KeptFile(BaseModel):
    """A file that a tool has made and that is kept in the workspace of its session."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    """Path of the file in the workspace."""
    media_type: str
    size: int = Field(ge=0)
    """Bytes of the file."""
    digest: str = ""
    """Name of the content, ``sha256:`` and hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes that a tool has made: they are kept as a file of the session, and the model is told where."""

    data: bytes = field(repr=False)
    name: str = ""
    """Name of the file; one is made up from the media type where it is missing or cannot be used."""
    media_type: str | None = None
    """Media type such as ``image/png``; told from name and bytes where it is missing."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a tool call, or of one attempt at it: the one form from the tool to the transcript."""

    kind: OutcomeKind
    """Kind of the outcome. ``crashed``: the call brought its process down. ``interrupted``: its process was lost,
    perhaps not because of the call; only an attempt ends so. ``cancelled``: the tool cancelled itself, or its task gave
    it up. ``unknown``: an unsafe call had started, and its effect is unknown. ``suspended``: the call has not ended; it
    goes on when it has what it needs. ``refused``: its arguments do not fit, which is no failure of the tool; only an
    attempt ends so."""
    text: str
    """Result of a call that is ``ok``, else the reason of its failure."""
    duration_ms: int | None = None
    """Milliseconds that the call took; None if it did not run to its end."""
    starts: int = 1
    suspension: Suspension | None = None
    """Needs of a call that is ``suspended``; None for any other."""
    made: tuple[Artifact, ...] = ()
    """Bytes that the tool has made and that are not kept yet."""
    artifacts: tuple[KeptFile, ...] = ()
    """Files that the tool has made."""

    @property
    def ok(self) -> bool:
        return self.kind == "ok"

    @property
    def result(self) -> str | None:
        """Result of the call; None if it is not ``ok``."""
        return self.text if self.ok else None

    @property
    def error(self) -> str | None:
        """Reason of the failure; None if the call is ``ok``."""
        return None if self.ok else self.text

    @property
    def for_model(self) -> str:
        """Text that the model gets as the result of its call."""
        return self.text if self.ok else f"error: {self.text}"

    @property
    def told(self) -> dict[str, Any]:
        """Fields of a ``tool_result`` event for this outcome."""
        ok, text = self.kind == "ok", self.text
        artifacts = {"artifacts": list(self.artifacts)} if self.artifacts else {}
        return artifacts | {
            "result": text if ok else None,
            "error": None if ok else text,
            "duration_ms": self.duration_ms or 0,
        }

    @property
    def counted_as(self) -> str:
        """Label of the outcome in the metrics."""
        return "error" if self.kind in ("crashed", "interrupted", "refused") else self.kind
