"""Refused: the one line and the documented exit code with which a script ends."""

from agent_builder.protocol.limits import EXIT_BUSY

__all__ = ["EXIT_BUSY", "EXIT_FOREIGN", "EXIT_PORT", "Refused"]
EXIT_PORT, EXIT_FOREIGN = 4, 5


class Refused(Exception):
    def __init__(self, line: str, exit_code: int = 1) -> None:
        super().__init__(line)
        self.exit_code = exit_code
