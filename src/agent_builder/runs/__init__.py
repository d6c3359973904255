"""One Run, from spawn to terminal."""
