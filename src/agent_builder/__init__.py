"""Agent Builder: a confined, approval-first agent runtime for one operator."""
