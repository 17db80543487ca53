# Command-line parsing. Target: CLI11::CLI11.
attndb_find(libcli11-dev CLI11 2.1 CONFIG)
