from tests.support.confined import worker_env

__all__ = ["worker_env"]
