# JSON for --json output and bench results. Target: nlohmann_json::nlohmann_json.
attndb_find(nlohmann_json 3.11)
