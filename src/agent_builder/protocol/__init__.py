"""Shared words: values, records and errors that several rooms use. Imports nothing of ours."""
