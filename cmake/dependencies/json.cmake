# JSON for --json output and bench results (Debian: nlohmann-json3-dev). Target: nlohmann_json::nlohmann_json.
find_package(nlohmann_json 3.11 REQUIRED)
