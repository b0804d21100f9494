"""Responses that can be read again: in Redis it is kept which turn each of them is."""

from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import shard_of
from pentad.services.gateway.protocols.openai.kept_calls import KeptCall
from pentad.services.gateway.protocols.openai.responses_items import ResponseForm, response_id
from pentad.services.gateway.tasks.patience import persist
from pentad.shared.keys import chat_response
from pentad.shared.store.store import Store


class KeptResponse(Contract):
    """The turn of a response, and what its client has given along."""

    message_id: str
    session: str
    model: str
    created: int
    previous: str | None = None
    metadata: dict[str, str] | None = None
    background: bool = False
    is_json: bool = False
    goes_on: KeptCall | None = None

    def form(self) -> ResponseForm:
        """Return the form of the response."""
        return ResponseForm(
            self.message_id,
            self.session,
            self.model,
            self.created,
            self.previous,
            self.metadata,
            background=self.background,
            is_json=self.is_json,
            goes_on=self.goes_on,
        )


class KeptResponses:
    """Keeps and reads which turns responses are. Raises ``OutageError``."""

    def __init__(self, store: Store, shards: int, ttl_s: int) -> None:
        self._store, self._shards, self._ttl_s = store, shards, ttl_s

    async def keep(self, tenant: str, form: ResponseForm) -> ResponseForm:
        """Keep a response, and return it as it was kept first."""
        kept = KeptResponse(
            message_id=form.message_id,
            session=form.session,
            model=form.model,
            created=form.created,
            previous=form.previous,
            metadata=None if form.metadata is None else dict(form.metadata),
            background=form.background,
            is_json=form.is_json,
            goes_on=form.goes_on,
        )
        key = self._key(tenant, response_id(form.message_id))
        await persist(lambda: self._store.call("SET", key, kept.to_json(), "NX", "EX", self._ttl_s))
        known = await self.read(tenant, response_id(form.message_id))
        return form if known is None else known.form()

    async def read(self, tenant: str, response: str) -> KeptResponse | None:
        """Return a response; None for one that is not kept."""
        raw = await persist(lambda: self._store.call("GET", self._key(tenant, response)))
        try:
            return None if raw is None else KeptResponse.model_validate_json(raw)
        except ValidationError:
            return None

    async def forget(self, tenant: str, message_id: str) -> None:
        """Forget a response."""
        await persist(lambda: self._store.call("DEL", self._key(tenant, response_id(message_id))))

    def _key(self, tenant: str, response: str) -> str:
        return chat_response(shard_of(tenant, response, self._shards), tenant, response)
