"""Confinement of processes: Landlock, seccomp, limits, capabilities, and who a process is. Imports protocol only."""
