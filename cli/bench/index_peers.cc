#include "cli/bench/index_peers.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace attndb::cli {
namespace {

using Json = nlohmann::json;

// Rows of `dim` float32, as NumPy writes them (format 1.0).
Status WriteNpy(const std::string& path, const float* rows, size_t num_rows, size_t dim) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(num_rows) + ", " + std::to_string(dim) + "), }";
  constexpr size_t kPrefix = 10;  // Magic, version, length.
  header.resize((kPrefix + header.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(rows),
             static_cast<std::streamsize>(num_rows * dim * sizeof(float)));
  file.close();
  if (file.good()) return Status();
  return Status::IoError("'" + path + "' can't be written");
}

// Every so many-th of the training queries.
std::vector<float> SomeRows(const std::vector<float>& rows, size_t dim, size_t wanted) {
  const size_t count = rows.size() / dim;
  if (wanted >= count) return rows;
  std::vector<float> some;
  for (size_t i = 0; i < wanted; ++i) {
    const auto from = rows.begin() + static_cast<std::ptrdiff_t>(i * count / wanted * dim);
    some.insert(some.end(), from, from + static_cast<std::ptrdiff_t>(dim));
  }
  return some;
}

Status AddMeasurement(const Json& json, std::vector<IndexHeadResult>* heads) {
  const auto head =
      std::ranges::find(*heads, json.at("head").get<std::string>(), &IndexHeadResult::name);
  if (head == heads->end()) {
    return Status::InvalidArgument("a head that was not given: " + json.dump());
  }
  IndexResult result;
  result.name = json.at("peer").get<std::string>();
  result.setting = json.at("setting").get<std::string>();
  result.recall = json.at("recall").get<double>();
  result.us_per_query = json.at("us_per_query").get<double>();
  const auto optional = [&](const char* key, double none) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : none;
  };
  result.visited = optional("visited", -1);
  result.build_seconds = optional("build_s", 0);
  result.index_bytes = optional("bytes_per_key", -1);
  head->results.push_back(std::move(result));
  return Status();
}

}  // namespace

Status WriteHeadFiles(const std::string& dir, const IndexHead& head, double sample) {
  const size_t dim = head.layer().head_dim;
  const std::string base = dir + "/" + head.name;
  ATTNDB_RETURN_IF_ERROR(
      WriteNpy(base + ".keys.npy", head.k.data() + IndexHead::kSink * dim, head.num_keys(), dim));
  const auto wanted = static_cast<size_t>(sample * static_cast<double>(head.num_keys()));
  const std::vector<float> train = SomeRows(head.train, dim, wanted);
  ATTNDB_RETURN_IF_ERROR(WriteNpy(base + ".train.npy", train.data(), train.size() / dim, dim));
  return WriteNpy(base + ".test.npy", head.test.data(), head.test.size() / dim, dim);
}

Status WriteHeadList(const std::string& dir, const std::vector<IndexHeadResult>& heads,
                     std::string_view origin, uint32_t k) {
  Json list = Json::array();
  for (const IndexHeadResult& head : heads) {
    list.push_back({{"name", head.name},
                    {"num_keys", head.num_keys},
                    {"dim", head.head_dim},
                    {"group", head.group_size},
                    {"origin", origin},
                    {"k", k}});
  }
  std::ofstream file(dir + "/heads.json");
  file << list.dump(1) << "\n";
  file.close();
  return file.good() ? Status() : Status::IoError("'" + dir + "/heads.json' can't be written");
}

Status AddPeerLine(std::string_view line, std::vector<IndexHeadResult>* heads) {
  if (!line.starts_with('{')) return Status();
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&] {
    return Status::InvalidArgument("peers: expected a measurement, found " + std::string(line));
  };
  if (!json.is_object()) return bad();
  if (json.contains("left_out") && json["left_out"].is_string()) {
    for (IndexHeadResult& head : *heads) head.left_out.push_back(json["left_out"]);
    return Status();
  }
  for (const char* key : {"head", "peer", "setting"}) {
    if (!json.contains(key) || !json[key].is_string()) return bad();
  }
  for (const char* key : {"recall", "us_per_query"}) {
    if (!json.contains(key) || !json[key].is_number()) return bad();
  }
  return AddMeasurement(json, heads);
}

Status RunPeers(const std::string& command, const std::string& dir,
                std::vector<IndexHeadResult>* heads) {
  const std::string line = command + " '" + dir + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  if (pipe == nullptr) return Status::IoError("'" + line + "' can't be started");
  std::string text;
  char piece[4096];
  while (std::fgets(piece, sizeof(piece), pipe.get()) != nullptr) {
    text += piece;
    if (!text.ends_with('\n')) continue;
    ATTNDB_RETURN_IF_ERROR(AddPeerLine(text.substr(0, text.size() - 1), heads));
    text.clear();
  }
  const int status = pclose(pipe.release());
  if (status == 0) return Status();
  return Status::Internal("'" + line + "' failed with status " +
                          std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : status));
}

}  // namespace attndb::cli
