from tests.support.confined import run_root, targets, worker_env
from tests.support.documents import library

__all__ = ["library", "run_root", "targets", "worker_env"]
