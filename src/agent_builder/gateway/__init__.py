"""The HTTP interface: who may ask, what was asked, and the streams of events."""
