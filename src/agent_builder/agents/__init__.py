"""Agents and their generations."""
