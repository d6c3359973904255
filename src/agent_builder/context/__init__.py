"""Planning what a model sees: pure, synchronous functions of their arguments."""
