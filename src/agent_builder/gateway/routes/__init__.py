"""One module per object of the interface; each lists its endpoints."""
