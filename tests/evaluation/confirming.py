"""A configured model that is asked where the words are not sure, as the router asks it."""

from pentad.services.router.domain.model_verdict import candidates_of, confirmed, question_text, without_model
from pentad.services.router.domain.rules import Question, Route
from pentad.services.router.model_confirmation import RoutingModel
from pentad.shared.actors.mail import SessionMessage
from pentad.shared.errors import SettingsError
from pentad.shared.instructions.builtin import ROUTER
from pentad.shared.models.configured_models import configured_models, environment_chat, environment_parameters
from pentad.shared.models.model_list import KnownModel
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.models.ports import ChatModel
from pentad.shared.settings import load_settings
from tests.evaluation.labelled import LabelledMessage


class ConfiguredModel:
    """One model of ``PENTAD_MODELS``, or ``default``: the environment's. Raises ``SettingsError``."""

    def __init__(self, model_id: str) -> None:
        settings = load_settings()
        models = configured_models(settings).and_registered(())

        def make(known: KnownModel) -> ChatModel:
            if known.source == "environment":
                return environment_chat(settings)
            return make_of_entry(known.entry, environment_parameters(settings))

        self._pool = ModelPool(make, OpenGate(), models)
        self._instruction = ROUTER.model_copy(update={"model": model_id})
        self._model, self._threshold = RoutingModel(self._pool), settings.pentad_route_confidence
        if not self._model.is_real(self._instruction):
            raise SettingsError(f"MODEL={model_id}: there is no such chat model, or only the offline one would answer")

    async def confirm(self, question: Question, route: Route, message: LabelledMessage) -> Route:
        """The model's word on a route that is not sure."""
        tasks = candidates_of(question, route)
        turns = [
            SessionMessage(role=role, content=text, task_id=task.id, at="")
            for task in message.tasks
            for role, text in task.turns
        ]
        verdict = await self._model.ask(self._instruction, question_text(message.text, tasks, turns), tasks)
        if isinstance(verdict, str):
            return without_model(route, verdict)
        return confirmed(question, route, verdict, self._threshold)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
