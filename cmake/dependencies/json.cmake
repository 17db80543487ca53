# JSON for --json output and bench results. Target: nlohmann_json::nlohmann_json.
attndb_find(nlohmann-json3-dev nlohmann_json 3.11)
