#include "engines/llama/model_places.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxModels = 1000;
constexpr size_t kMaxEntries = 20'000;  // Looked at in one place.
constexpr int kMaxDepth = 3;
constexpr size_t kMaxNamed = 5;  // In a message.

fs::path Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  return value == nullptr ? fs::path() : fs::path(value);
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// A model's file, and what it may be called; all names in lower case but for `shown`.
struct Candidate {
  std::string path;
  std::vector<std::string> shown;  // Names to show it by, the best first.
  std::string stem;                // The file's name without ".gguf" and the number of the part.
  std::string repo;                // "owner/repo"; empty: it is of none.
};

// "model-00001-of-00003" -> "model"; empty: another part than the first.
std::string StemOf(const fs::path& path) {
  static const std::regex kPart("^(.*)-([0-9]{5})-of-[0-9]{5}$");
  const std::string stem = path.stem().string();
  std::smatch match;
  if (!std::regex_match(stem, match, kPart)) return stem;
  return match[2].str() == "00001" ? match[1].str() : "";
}

// Whether a file's name has a word: "model-q4_k_m" has "q4_k_m", and not "q4_k".
bool HasWord(const std::string& stem, const std::string& word) {
  constexpr std::string_view kBetween = "-._";
  for (size_t at = stem.find(word); at != std::string::npos; at = stem.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || kBetween.find(stem[at - 1]) != std::string_view::npos;
    const bool ends = end == stem.size() || stem[end] == '-' || stem[end] == '.';
    if (begins && ends) return true;
  }
  return false;
}

// The models below a folder, by their paths. Links to folders are not followed.
std::vector<fs::path> ModelsBelow(const fs::path& folder) {
  std::vector<fs::path> paths;
  if (folder.empty()) return paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  size_t num_entries = 0;
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (++num_entries > kMaxEntries) break;
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    const fs::path& path = entry->path();
    if (Lower(path.extension().string()) != ".gguf" || StemOf(path).empty()) continue;
    const std::string stem = Lower(path.stem().string());
    if (HasWord(stem, "mmproj") || HasWord(stem, "lora")) continue;
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) paths.push_back(path);
  }
  std::ranges::sort(paths);
  return paths;
}

Candidate CandidateOf(const fs::path& path) {
  const std::string stem = StemOf(path);
  return {.path = path.string(), .shown = {stem}, .stem = Lower(stem), .repo = ""};
}

// "models--owner--repo" -> "owner/repo"; empty: it is no model's folder.
std::string RepoOf(const fs::path& folder) {
  constexpr std::string_view kStart = "models--";
  std::string name = folder.filename().string();
  if (!name.starts_with(kStart)) return "";
  name.erase(0, kStart.size());
  const size_t at = name.find("--");
  return at == std::string::npos ? name : name.substr(0, at) + "/" + name.substr(at + 2);
}

// The snapshot that `main` stands for; all of them, where that is not told.
fs::path SnapshotsOf(const fs::path& repo_folder) {
  std::ifstream file(repo_folder / "refs" / "main");
  std::string commit;
  const fs::path snapshots = repo_folder / "snapshots";
  const bool is_plain = file >> commit && commit.find('/') == std::string::npos && commit[0] != '.';
  std::error_code ignored;
  return is_plain && fs::is_directory(snapshots / commit, ignored) ? snapshots / commit : snapshots;
}

void AddHubModels(const fs::path& cache, std::vector<Candidate>* candidates) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(cache, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!RepoOf(entry->path()).empty()) folders.push_back(entry->path());
    if (folders.size() >= kMaxModels) break;
  }
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) {
    const std::string repo = RepoOf(folder);
    std::set<std::string> blobs;  // The same file of several snapshots is one.
    for (const fs::path& path : ModelsBelow(SnapshotsOf(folder))) {
      std::error_code ignored;
      if (!blobs.insert(fs::weakly_canonical(path, ignored).string()).second) continue;
      Candidate candidate = CandidateOf(path);
      candidate.repo = Lower(repo);
      candidate.shown.insert(candidate.shown.begin(), repo);
      candidates->push_back(std::move(candidate));
    }
  }
}

std::vector<Candidate> Candidates(const ModelPlaces& places) {
  std::vector<Candidate> candidates;
  for (const fs::path& path : ModelsBelow(places.folder)) candidates.push_back(CandidateOf(path));
  AddHubModels(places.hub_cache, &candidates);
  for (const fs::path& path : ModelsBelow(places.llama_cache)) {
    candidates.push_back(CandidateOf(path));
  }
  candidates.resize(std::min(candidates.size(), kMaxModels));
  return candidates;
}

// `name` in lower case.
bool Matches(const Candidate& candidate, std::string name) {
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  if (name == candidate.stem) return true;
  const size_t colon = name.find(':');
  std::string repo = name.substr(0, colon);
  const std::string quant = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (repo.find('/') == std::string::npos) return false;
  const bool has_quant = quant.empty() || HasWord(candidate.stem, quant);
  if (repo == candidate.repo) return has_quant;
  std::ranges::replace(repo, '/', '_');  // llama.cpp's "owner_repo_file".
  return has_quant && candidate.stem.starts_with(repo + "_");
}

std::vector<const Candidate*> Matching(const std::vector<Candidate>& candidates,
                                       const std::string& name) {
  std::vector<const Candidate*> found;
  for (const Candidate& candidate : candidates) {
    if (Matches(candidate, Lower(name))) found.push_back(&candidate);
  }
  return found;
}

// The best name that stands for this file alone; its path, where none does.
std::string NameOf(const Candidate& candidate, const std::vector<Candidate>& candidates) {
  for (const std::string& name : candidate.shown) {
    if (Matching(candidates, name).size() == 1) return name;
  }
  return candidate.path;
}

// "a, b, c and 4 more".
std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed)
    text += " and " + std::to_string(names.size() - kMaxNamed) + " more";
  return text;
}

// Names of models that have `name` in them, or are in it.
std::string LikeIt(const std::string& name, const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  const std::string wanted = Lower(name.substr(name.find_last_of('/') + 1));
  for (const Candidate& candidate : candidates) {
    const bool is_like = candidate.stem.find(wanted) != std::string::npos ||
                         candidate.repo.find(wanted) != std::string::npos ||
                         wanted.find(candidate.stem) != std::string::npos;
    if (is_like && !wanted.empty()) names.push_back(NameOf(candidate, candidates));
  }
  return names.empty() ? "" : "; did you mean " + Listed(names) + "?";
}

std::string WhereLooked(const ModelPlaces& places) {
  std::string text = "$ATTNDB_MODELS";
  text += places.folder.empty() ? " (not set)" : " (" + places.folder.string() + ")";
  for (const fs::path& cache : {places.hub_cache, places.llama_cache}) {
    if (!cache.empty()) text += ", " + cache.string();
  }
  return text;
}

}  // namespace

ModelPlaces ModelPlaces::FromEnvironment() {
  ModelPlaces places;
  places.folder = Variable("ATTNDB_MODELS");
  fs::path caches = Variable("XDG_CACHE_HOME");
  const fs::path home = Variable("HOME");
  if (caches.empty() && !home.empty()) caches = home / ".cache";
  places.hub_cache = Variable("HF_HUB_CACHE");
  const fs::path hf_home = Variable("HF_HOME");
  if (places.hub_cache.empty() && !hf_home.empty()) places.hub_cache = hf_home / "hub";
  if (places.hub_cache.empty() && !caches.empty()) {
    places.hub_cache = caches / "huggingface" / "hub";
  }
  places.llama_cache = Variable("LLAMA_CACHE");
  if (places.llama_cache.empty() && !caches.empty()) places.llama_cache = caches / "llama.cpp";
  return places;
}

std::vector<NamedModel> FindModels(const ModelPlaces& places) {
  const std::vector<Candidate> candidates = Candidates(places);
  std::vector<NamedModel> models;
  for (const Candidate& candidate : candidates) {
    models.push_back({NameOf(candidate, candidates), candidate.path});
  }
  return models;
}

Result<std::string> FindModel(const std::string& name, const ModelPlaces& places) {
  const std::vector<Candidate> candidates = Candidates(places);
  const std::vector<const Candidate*> found = Matching(candidates, name);
  if (found.size() == 1) return found.front()->path;
  if (found.empty()) {
    return Status::NotFound("model '" + name + "': no such file, and no model of that name in " +
                            WhereLooked(places) + LikeIt(name, candidates));
  }
  std::vector<std::string> names;
  for (const Candidate* candidate : found) {
    const std::string own = NameOf(*candidate, candidates);
    names.push_back(own == name ? candidate->path : own);
  }
  return Status::InvalidArgument("model '" + name + "' stands for " + std::to_string(found.size()) +
                                 ": expected one of " + Listed(names));
}

}  // namespace attndb::llama
