"""The research and document environment of an Agent."""

from starlette.types import ASGIApp

from agent_builder.agents.research_envs import ResearchState, ResearchStatus
from agent_builder.capsule.research_install import FaultCode
from agent_builder.commands.command_types import InstallResearchEnv, RemoveResearchEnv
from agent_builder.gateway.answers import PackageAnswer, ResearchEnvAnswer, ResearchErrorAnswer, ResearchProgressAnswer
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.protocol.errors import AgentBusy, AgentDraining, StorageFull

PATH = "/api/agents/{agent_id}/dependencies/research-documents"
SENTENCES: dict[FaultCode, str] = {
    "installer_missing": "The package installer is missing; run ./bootstrap.sh, then try again.",
    "download_failed": "A package could not be downloaded; look at this machine's connection and proxy, then try again.",
    "hash_mismatch": "A downloaded file is not the one that was expected, and was refused; look at where packages come from.",
    "no_fitting_file": "There is no ready-made package for this machine and its Python; GNU/Linux with Python 3.11 to 3.13 is needed.",
    "disk_full": "The disk is full; free about 100 MB, then try again.",
    "too_long": "The installation took more than ten minutes and was ended; try again, it goes on from what is downloaded.",
    "check_failed": "The packages are there but do not work on this machine; the log says why.",
    "internal": "Something went wrong inside Agent Builder; the log says what.",
}


async def read_research_env(call: Call) -> ASGIApp:
    return reply(_answer(await call.services.registry.research_status(call.agent_id)))


async def install_research_env(call: Call) -> ASGIApp:
    """200 where there is nothing to do. Otherwise long work: later reads show the progress."""
    status = await call.services.bus.dispatch(InstallResearchEnv(call.agent_id))
    return reply(_answer(status), 200 if status.state is ResearchState.INSTALLED else 202)


async def remove_research_env(call: Call) -> ASGIApp:
    """Done when it is answered; an installation in progress is ended first."""
    await call.services.bus.dispatch(RemoveResearchEnv(call.agent_id))
    return reply(None)


def _answer(status: ResearchStatus) -> ResearchEnvAnswer:
    packages, progress, error = status.packages, status.progress, status.error
    return ResearchEnvAnswer(
        state=status.state.value, version=status.version, installed_at=status.installed_at, outdated=status.outdated,
        packages=None if packages is None else [PackageAnswer(name=one.name, version=one.version) for one in packages],
        progress=None if progress is None else ResearchProgressAnswer(
            step=progress.step, packages_done=progress.packages_done, packages_total=progress.packages_total, elapsed_s=progress.elapsed_s
        ),
        error=None if error is None else ResearchErrorAnswer(code=error, message=SENTENCES[error]),
    )


ENDPOINTS = (
    Endpoint("GET", PATH, "Read the state of an Agent's research environment", read_research_env, ResearchEnvAnswer),
    Endpoint("POST", PATH, "Install an Agent's research environment", install_research_env, ResearchEnvAnswer, 202, also=(200,),
             errors=(AgentBusy, AgentDraining, StorageFull)),
    Endpoint("DELETE", PATH, "Remove an Agent's research environment", remove_research_env, None, 204,
             errors=(AgentBusy, AgentDraining)),
)
