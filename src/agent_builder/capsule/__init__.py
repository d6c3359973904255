"""One Agent's files: opened only through descriptors, changed only by exchange. Imports protocol and sandbox."""
