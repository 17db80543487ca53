#include "bench/index/index_peers.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace attndb::bench {
namespace {

using Json = nlohmann::json;

// Rows of `dim` numbers of 4 bytes, as NumPy writes them (format 1.0). type: "<f4", "<i4".
Status WriteNpy(const std::string& path, const char* type, const void* rows, size_t num_rows,
                size_t dim) {
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(num_rows) + ", " + std::to_string(dim) + "), }";
  constexpr size_t kPrefix = 10;  // Magic, version, length.
  header.resize((kPrefix + header.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(static_cast<const char*>(rows), static_cast<std::streamsize>(num_rows * dim * 4));
  file.close();
  if (file.good()) return Status();
  return Status::IoError("'" + path + "' can't be written");
}

Status WriteRows(const std::string& path, const std::vector<float>& rows, size_t dim) {
  return WriteNpy(path, "<f4", rows.data(), rows.size() / dim, dim);
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

// "clusters=256 rank=32", of an object.
std::string ParametersText(const Json& json, const char* key) {
  std::string text;
  if (!json.contains(key) || !json[key].is_object()) return text;
  for (const auto& [name, value] : json[key].items()) {
    text += (text.empty() ? "" : " ") + name + "=" +
            (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

Status AddMeasurement(const Json& json, std::vector<IndexHeadResult>* heads) {
  const auto head =
      std::ranges::find(*heads, json.at("head").get<std::string>(), &IndexHeadResult::name);
  if (head == heads->end()) {
    return Status::InvalidArgument("a head that was not given: " + json.dump());
  }
  const auto optional = [&](const char* key, double none) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : none;
  };
  IndexResult result;
  result.name = json.at("peer").get<std::string>();
  result.setting = ParametersText(json, "build") + "; " + ParametersText(json, "search");
  result.recall = json.at("recall").get<double>();
  result.us_per_query = json.at("us_per_query").get<double>();
  result.visited = optional("visited", -1);
  result.build_seconds = optional("build_s", 0);
  const double bytes = optional("index_bytes", -1);
  if (bytes > 0) result.index_bytes = bytes / static_cast<double>(head->num_keys);
  head->results.push_back(std::move(result));
  return Status();
}

}  // namespace

Status WriteHeadFiles(const std::string& dir, const IndexHead& head, const Truth& truth,
                      double sample) {
  const size_t dim = head.layer().head_dim;
  const std::string base = dir + "/" + head.name;
  ATTNDB_RETURN_IF_ERROR(WriteNpy(base + ".keys.npy", "<f4", head.k.data() + IndexHead::kSink * dim,
                                  head.num_keys(), dim));
  const auto wanted = static_cast<size_t>(sample * static_cast<double>(head.num_keys()));
  ATTNDB_RETURN_IF_ERROR(WriteRows(base + ".train.npy", SomeRows(head.train, dim, wanted), dim));
  ATTNDB_RETURN_IF_ERROR(WriteRows(base + ".test.npy", head.test, dim));
  std::vector<int32_t> keys;
  const size_t k = truth.empty() || truth[0].empty() ? 0 : truth[0][0].size();
  for (const auto& query : truth) {
    for (const std::vector<uint32_t>& tokens : query) {
      for (const uint32_t token : tokens) {
        keys.push_back(static_cast<int32_t>(token - IndexHead::kSink));
      }
    }
  }
  return WriteNpy(base + ".truth.npy", "<i4", keys.data(), k == 0 ? 0 : keys.size() / k, k);
}

Status WriteHeadList(const std::string& dir, const std::vector<IndexHeadResult>& heads,
                     std::string_view origin) {
  Json list = Json::array();
  for (const IndexHeadResult& head : heads) {
    list.push_back({{"name", head.name},
                    {"label", origin},
                    {"n", head.num_keys},
                    {"d", head.head_dim},
                    {"group_size", head.group_size}});
  }
  std::ofstream file(dir + "/heads.json");
  file << Json({{"heads", list}}).dump(1) << "\n";
  file.close();
  return file.good() ? Status() : Status::IoError("'" + dir + "/heads.json' can't be written");
}

Status AddPeerLine(std::string_view line, std::vector<IndexHeadResult>* heads) {
  if (!line.starts_with('{')) return Status();
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  const auto is_number = [&](const char* key) {
    return json.contains(key) && json[key].is_number();
  };
  if (!json.is_object()) {
    return Status::InvalidArgument("peers: expected a JSON object, found " + std::string(line));
  }
  if (is_text("left_out") && is_text("peer")) {
    const std::string why =
        json["peer"].get<std::string>() + ": " + json["left_out"].get<std::string>();
    for (IndexHeadResult& head : *heads) head.left_out.push_back(why);
    return Status();
  }
  if (!is_number("recall")) return Status();
  if (!is_text("head") || !is_text("peer") || !is_number("us_per_query")) {
    return Status::InvalidArgument("peers: expected head, peer and us_per_query, found " +
                                   std::string(line));
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

}  // namespace attndb::bench
