# Command-line parsing (Debian: libcli11-dev). Target: CLI11::CLI11.
find_package(CLI11 2.1 CONFIG REQUIRED)
