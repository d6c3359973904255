"""Many Turns: admission, preparation, pages, branches and recovery."""
