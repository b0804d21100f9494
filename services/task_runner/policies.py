"""The approval policies that this task-runner knows: those of the file, and those registered while the system runs."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.domain.plan import Advance
from pentad.services.task_runner.domain.verdict import CallVerdict, verdict_of
from pentad.shared.actors.approvals import KeptRequest
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.policies.policy import CallKind, Policy
from pentad.shared.policies.policy_list import in_effect
from pentad.shared.registries.registrations import REGISTERED_POLICIES
from pentad.shared.store.store import Store


class PolicyBook:
    """Hands out the approval policies as they are now; those found last stay in effect while Redis is away.

    ``file``: the policies of the file.
    """

    def __init__(self, store: Store, file: Iterable[ApprovalRule] = ()) -> None:
        self._store, self._file = store, tuple(file)
        self._registered: Sequence[ApprovalRule] = ()
        self._merge()

    def use_file(self, file: Iterable[ApprovalRule]) -> None:
        """Take other policies of the file."""
        self._file = tuple(file)
        self._merge()

    async def read(self) -> None:
        """Read what is registered. Raises ``OutageError``."""
        self._use((await REGISTERED_POLICIES.read(self._store)).entries)

    def follow(self) -> Coroutine[Any, Any, None]:
        """Read what has changed, for ever."""
        return REGISTERED_POLICIES.keep_following(self._store, self._use)

    def verdicts_for(
        self, task: TaskHeader, instruction: str
    ) -> Callable[[ToolSpec, Mapping[str, Any]], CallVerdict] | None:
        """Return the function that finds the verdict on a call of this task; None: there are no policies.

        ``instruction``: the one that the step runs.
        """
        policy = self._policy
        if not policy:
            return None
        names = (task.instruction,) if instruction == task.instruction else (task.instruction, instruction)

        def verdict(spec: ToolSpec, args: Mapping[str, Any]) -> CallVerdict:
            return verdict_of(policy.rule_for(CallKind(task.tenant, names, spec.name, spec.effect), args))

        return verdict

    def denied(self, task: TaskHeader, plan: Advance, requests: Mapping[str, KeptRequest]) -> Mapping[str, str]:
        """Return the kept calls that would be made now and that a policy denies, each with why.

        A person may have given other arguments since the call was asked for, and the policies may have changed.
        """
        policy, found = self._policy, dict[str, str]()
        if not policy:
            return found
        given = {call.id: decision.args for call, decision in plan.decisions}
        for call in (*given, *(each.id for each in plan.released)):
            request = requests[call]
            command = request.command
            names = tuple(name for name in (task.instruction, command.instruction) if name)
            edited = None if request.is_form else given.get(call)
            kind = CallKind(task.tenant, names, command.tool, command.effect)
            verdict = verdict_of(policy.rule_for(kind, command.args if edited is None else edited))
            if verdict.then == "deny":
                found[call] = verdict.reason
        return found

    def _use(self, registered: Sequence[ApprovalRule]) -> None:
        self._registered = registered
        self._merge()

    def _merge(self) -> None:
        self._policy = Policy([known.rule for known in in_effect(self._file, self._registered)])
