"""What the scripts do, as testable code: start and stop, logs, the access token."""
