"""Work beside a Run."""
