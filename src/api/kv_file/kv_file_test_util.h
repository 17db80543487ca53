// A KV file taken apart, so that a test can change any part of it and put it together again.
//
// Threads: one.
#ifndef ATTNDB_API_KV_FILE_KV_FILE_TEST_UTIL_H_
#define ATTNDB_API_KV_FILE_KV_FILE_TEST_UTIL_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace attndb::test {

struct RawKvFile {
  nlohmann::ordered_json header;
  std::string data;

  static RawKvFile Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return {nlohmann::ordered_json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }

  static void WriteBytes(const std::string& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // `padding` spaces follow the text.
  std::string Bytes(size_t padding = 0) const {
    const std::string text = header.dump() + std::string(padding, ' ');
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
  }
  void Write(const std::string& path, size_t padding = 0) const {
    WriteBytes(path, Bytes(padding));
  }

  nlohmann::ordered_json& metadata(const std::string& key) { return header["__metadata__"][key]; }

  // Replaces the bytes of a tensor, and moves the later ones.
  void Replace(const std::string& name, const std::string& dtype, const std::string& bytes) {
    const auto begin = header[name]["data_offsets"][0].get<uint64_t>();
    const auto end = header[name]["data_offsets"][1].get<uint64_t>();
    data = data.substr(0, begin) + bytes + data.substr(end);
    header[name]["dtype"] = dtype;
    for (auto& [key, tensor] : header.items()) {
      if (key == "__metadata__") continue;
      for (auto& offset : tensor["data_offsets"]) {
        const auto at = offset.get<uint64_t>();
        if (at >= end) offset = at - end + begin + bytes.size();
      }
    }
  }
};

}  // namespace attndb::test

#endif  // ATTNDB_API_KV_FILE_KV_FILE_TEST_UTIL_H_
