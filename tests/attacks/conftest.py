from tests.support.confined import run_root, targets, worker_env

__all__ = ["run_root", "targets", "worker_env"]
