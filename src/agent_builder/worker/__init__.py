"""The confined process of one Run: a pure loop and a link to the host. Standard library, protocol and sandbox only."""
