# Command-line parsing. Target: CLI11::CLI11.
attndb_find(CLI11 2.1 CONFIG)
