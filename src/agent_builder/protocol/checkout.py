"""Checkout: every path the program uses, in one place. All of them lie inside the checkout."""

from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.ids import AgentId, RunId


@dataclass(frozen=True, slots=True)
class Checkout:
    """`root` is absolute and resolved."""

    root: Path

    @property
    def web(self) -> Path:
        return self.root / "web"

    @property
    def default_catalog(self) -> Path:
        return self.root / "config/models.toml"

    @property
    def research_lock(self) -> Path:
        """The packages of a research environment, each with its version and the hashes of its files."""
        return self.root / "config/research-documents.txt"

    @property
    def uv(self) -> Path:
        return self.root / ".tools/uv/bin/uv"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def registry_db(self) -> Path:
        return self.data / "agent-registry.sqlite"

    @property
    def agents_data(self) -> Path:
        return self.data / "agents"

    def agent_data(self, agent: AgentId) -> Path:
        return self.agents_data / agent

    def manifest(self, agent: AgentId) -> Path:
        return self.agent_data(agent) / "manifest.json"

    def workspace(self, agent: AgentId) -> Path:
        return self.agent_data(agent) / "workspace"

    def skills(self, agent: AgentId) -> Path:
        return self.agent_data(agent) / "skills"

    def state_db(self, agent: AgentId) -> Path:
        return self.agent_data(agent) / "state.sqlite"

    def research_record(self, agent: AgentId) -> Path:
        """What says that a research environment is whole, and which one it is."""
        return self.agent_data(agent) / "dependencies/research-documents.json"

    @property
    def runtime(self) -> Path:
        return self.root / ".runtime"

    @property
    def cache(self) -> Path:
        return self.runtime / "cache"

    @property
    def control_plane(self) -> Path:
        return self.runtime / "control-plane"

    @property
    def secrets(self) -> Path:
        return self.runtime / "secrets"

    @property
    def bootstrap_token(self) -> Path:
        return self.secrets / "web-bootstrap-token"

    @property
    def reveal_token(self) -> Path:
        return self.secrets / "context-reveal-token"

    @property
    def qualification(self) -> Path:
        return self.runtime / "qualification"

    @property
    def local_model(self) -> Path:
        return self.runtime / "local-model"

    @property
    def agents_runtime(self) -> Path:
        return self.runtime / "agents"

    def agent_runtime(self, agent: AgentId) -> Path:
        return self.agents_runtime / agent

    def worker_env(self, agent: AgentId, generation: int) -> Path:
        return self.agent_runtime(agent) / "worker-env" / str(generation)

    def research_env(self, agent: AgentId) -> Path:
        return self.agent_runtime(agent) / "dependencies/research-documents"

    def runs(self, agent: AgentId) -> Path:
        return self.agent_runtime(agent) / "runs"

    def run_root(self, agent: AgentId, run: RunId) -> Path:
        return self.runs(agent) / run

    def tasks(self, agent: AgentId) -> Path:
        """Roots of background Tasks, one below it per Task id."""
        return self.agent_runtime(agent) / "tasks"

    def spares(self, agent: AgentId) -> Path:
        return self.agent_runtime(agent) / "spare"
