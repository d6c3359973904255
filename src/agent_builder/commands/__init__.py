"""What an operator may ask for: typed commands, their bus, and the slash commands."""
