"""The models that a message may choose."""

from starlette.types import ASGIApp

from agent_builder.gateway.answers import ModelsAnswer
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.views import model_answer


async def list_models(call: Call) -> ASGIApp:
    await call.services.models.look_again()
    return reply(ModelsAnswer(items=[model_answer(model) for model in call.services.models.public()]))


ENDPOINTS = (Endpoint("GET", "/api/models", "List the models", list_models, ModelsAnswer),)
