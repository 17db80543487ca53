// Models that lie where people keep them, by name: in a folder of one's own, in the cache of
// Hugging Face and in that of llama.cpp. What is there is found; nothing is fetched.
//
// A name is, whatever the case of its letters: a file's, with or without ".gguf"; OWNER/REPO, where
// the cache has one model of that repository; OWNER/REPO:QUANT, as in "owner/repo:Q4_K_M".
//
// Threads: stateless.
// Errors:  folders that can't be read hold nothing.
#ifndef ATTNDB_ENGINES_LLAMA_MODEL_PLACES_H_
#define ATTNDB_ENGINES_LLAMA_MODEL_PLACES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "attndb/result.h"

namespace attndb::llama {

// Folders to look in; an empty one is none.
struct ModelPlaces {
  std::filesystem::path folder;       // $ATTNDB_MODELS, with what is up to three folders below it.
  std::filesystem::path hub_cache;    // $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub.
  std::filesystem::path llama_cache;  // $LLAMA_CACHE, ~/.cache/llama.cpp.

  static ModelPlaces FromEnvironment();
};

struct NamedModel {
  std::string name;  // What stands for this file alone.
  std::string path;  // The first part of a split model.
};

// All of them, in the order of the places and of their paths; files that are adapters or projectors
// by their names are none. At most 1,000.
std::vector<NamedModel> FindModels(const ModelPlaces& places);

// The path that the name stands for.
// Errors: kNotFound, with where was looked and the names that are like it; kInvalidArgument: it
//         stands for several, which are named.
Result<std::string> FindModel(const std::string& name, const ModelPlaces& places);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_MODEL_PLACES_H_
