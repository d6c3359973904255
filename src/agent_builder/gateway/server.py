"""The Gateway as one ASGI application: error border, security headers, Host gate, routes, and the page's files."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_builder.gateway.auth import Sessions
from agent_builder.gateway.csrf import HostGate
from agent_builder.gateway.endpoint import Door, Endpoint, PathApp
from agent_builder.gateway.errors import ErrorBorder, unknown_address
from agent_builder.gateway.headers import SecurityHeaders, is_interface
from agent_builder.gateway.openapi import document_json
from agent_builder.gateway.routes.table import ENDPOINTS
from agent_builder.gateway.services import Services
from agent_builder.gateway.static import WebFiles
from agent_builder.gateway.throttle import LoginThrottle


def build_gateway(services: Services) -> Starlette:
    """The application; it opens nothing and closes nothing."""
    door = Door(Sessions(services.clock, services.port), LoginThrottle(services.clock), document_json)
    routes: list[BaseRoute] = [Route(path, PathApp(services, door, endpoints)) for path, endpoints in _by_path(ENDPOINTS).items()]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(ErrorBorder),
            Middleware(HostGate, names=services.host_names),
        ],
    )
    app.router.redirect_slashes = False
    app.router.default = _Elsewhere(WebFiles(services.web))
    return app


class _Elsewhere:
    """What no route names: a file of the page, never below the interface."""

    def __init__(self, files: ASGIApp) -> None:
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_interface(scope["path"]):
            raise unknown_address()
        await self._files(scope, receive, send)


def _by_path(endpoints: tuple[Endpoint, ...]) -> Mapping[str, Mapping[str, Endpoint]]:
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return paths
