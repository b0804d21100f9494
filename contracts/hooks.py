"""Hooks as all but their authors see them: what is published of each, how one is asked for, and what it changed."""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import Identifier, Timestamp

HookKind = Literal["before_model", "after_model", "before_tool", "after_tool", "task_start", "task_end"]
TASK_BEGINS: HookKind = "task_start"
TASK_ENDS: HookKind = "task_end"
HOOK_KINDS: tuple[HookKind, ...] = get_args(HookKind)
HOOK_TIMEOUT_S = 5.0
"""Seconds that a hook may take if it has no time limit of its own."""
MAX_HOOK_TIMEOUT_S = 60.0
MAX_SUBJECT_BYTES = 4 << 20
"""Bytes of JSON that a hook is given: a prompt, an answer, a call or a result."""
MAX_HOOKED_BYTES = 1 << 20
"""Bytes of JSON that a hook returns. Messages that it leaves as they are do not count."""


class HookSpec(BaseModel):
    """A hook as tool-workers publish it."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: str = Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)+$", max_length=200)
    """Place where the hook is defined, ``module.function``."""
    kind: HookKind
    instructions: tuple[str, ...] | None = None
    """Instructions and graphs whose tasks the hook concerns; None: all tasks."""
    order: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    """Place among the hooks of its kind: lower ones run first, and of equal ones that with the lower name."""
    timeout: float = Field(default=HOOK_TIMEOUT_S, gt=0, le=MAX_HOOK_TIMEOUT_S)
    """Seconds, counted from the start of the hook."""

    @property
    def module(self) -> str:
        """Module that defines the hook."""
        return self.name.rpartition(".")[0]

    def concerns(self, names: frozenset[str] | None) -> bool:
        """Whether the hook concerns a step of these instructions and graphs; None: of any, for they are not known."""
        return names is None or self.instructions is None or not names.isdisjoint(self.instructions)


class HookFacts(Contract):
    """The facts of a step that its hooks may read."""

    tenant_id: str
    user_id: str | None = None
    session_id: str = ""
    task_id: str = ""
    instruction: str = ""
    """Instruction that the step runs, of a graph's node too; at the end of a task that of the task."""
    step: int = 0


class HookCommand(Contract):
    """The command to run one hook once; the outcome goes to the reply stream of the task-runner that waits for it.

    The end of a task is told without a reply, at least once: that command is queued with the task's end.
    """

    type: Literal["hook_command"] = "hook_command"
    version: Literal[1] = 1
    request_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
    at: Timestamp
    """Time of the request: RFC 3339."""
    wait_ms: Annotated[int, Field(ge=1, le=86_400_000)]
    """Milliseconds for which the outcome is of use."""
    hook: Annotated[str, StringConstraints(max_length=200)]
    kind: HookKind
    timeout: Annotated[float, Field(gt=0, le=MAX_HOOK_TIMEOUT_S)] = HOOK_TIMEOUT_S
    tenant_id: Identifier
    facts: HookFacts
    subject: str
    """JSON that the hook is given."""
    reply_to: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Key of the stream that takes the ``HookReply``; absent: nobody waits for one."""


class HookReply(Contract):
    """The outcome of one hook."""

    type: Literal["hook_reply"] = "hook_reply"
    version: Literal[1] = 1
    request_id: str
    value: str | None = None
    """JSON that the hook returned; absent: it leaves everything as it is."""
    error: str | None = None
    """Reason why the hook has no outcome."""


class PromptSplice(Contract):
    """Messages of a prompt that a hook replaced by others."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    """End of the replaced messages, exclusive; the same as ``start``: messages were put in before it."""
    messages: list[str]
    """The messages in their place, each as JSON."""


class HookedPrompt(Contract):
    """Changes that `before_model` hooks made to a step's prompt. The digest of the prompt before is the manifest's."""

    hooks: list[str]
    """Names of the hooks that changed it, in their order."""
    splices: list[list[PromptSplice]]
    """Changes of each of these hooks, by positions in the prompt that it was given."""
    digest: str
    """SHA-256 of the messages that the model was sent, one a line."""


class HookedValue(Contract):
    """The change that a hook made to an answer, a call or a result."""

    hook: str
    kind: HookKind
    subject: str = ""
    """Tool of the call, or id of the call that a result answers; empty for an answer."""
    before: str
    """SHA-256 of what the hook was given."""
    after: str
    """SHA-256 of what the hook made of it."""
    original: str | None = None
    """Beginning of the text that the hook was given; absent for results of tools, which a hook may be there to hide."""
    refused: str | None = None
    """Reason of a call that was refused."""


class StepHooks(Contract):
    """The changes that hooks made in one step."""

    prompt: HookedPrompt | None = None
    values: list[HookedValue] = Field(default_factory=list)
