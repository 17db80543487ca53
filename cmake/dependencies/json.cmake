# JSON for --json output and bench results. Target: nlohmann_json::nlohmann_json.
#
# Headers include json.hpp and not json_fwd.hpp: in batches of sources one of seven would gain, 0.8 s
# of the 42.6 s that the command line takes to compile.
attndb_find(nlohmann_json 3.11)
