"""SQLite: one database file per Agent and one for the registry. Functions take a connection; `Database` decides where they run."""
