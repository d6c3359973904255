"""The embedded local model: real weights behind Ollama's HTTP interface, as a process of its own.

It runs in its own environment (standard library and xllamacpp) and imports nothing else of agent_builder.
"""
