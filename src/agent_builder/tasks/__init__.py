"""Work beside a Run: background Tasks, and what other Agents are asked."""
