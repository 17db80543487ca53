#include "fuzz/gguf_head.h"

#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "engines/llama/gguf_check.h"
#include "engines/llama/gguf_file.h"
#include "engines/llama/gguf_test_util.h"

namespace attndb::fuzz {
namespace {

std::string Edited(std::span<const uint8_t> edits) {
  static const std::string kModel = llama::SmallModel().Bytes();
  static const size_t kHeadBytes = kModel.size() - llama::SmallModel().data.size();
  std::string bytes = kModel;
  // Where (2 bytes), what: a byte, or four at once as numbers have.
  for (; edits.size() >= 7; edits = edits.subspan(7)) {
    const size_t at = (edits[0] | size_t{edits[1]} << 8) % (kHeadBytes - 4);
    const size_t count = edits[2] % 2 == 0 ? 1 : 4;
    for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(edits[3 + i]);
  }
  return bytes;
}

bool IsWithin(std::span<const std::byte> part, std::string_view whole) {
  const auto* const begin = reinterpret_cast<const char*>(part.data());
  return part.empty() ||
         (begin >= whole.data() && begin + part.size() <= whole.data() + whole.size());
}

// Looks at all that the file's head says.
void ReadAll(const llama::GgufFile& file, std::string_view bytes) {
  for (const auto& [key, value] : file.values()) {
    ATTNDB_CHECK(IsWithin(value.bytes, bytes));
    if (value.type == llama::GgufType::kString) {
      for (const std::string_view text : value.Strings()) {
        ATTNDB_CHECK(IsWithin(llama::AsBytes(text), bytes));
      }
    } else {
      for (uint64_t i = 0; i < value.count; ++i) {
        if (value.is_float()) {
          (void)value.Float(i);
        } else {
          (void)value.Integer(i);
        }
      }
    }
    ATTNDB_CHECK(file.Find(key) == &value);
  }
  for (const llama::GgufTensor& tensor : file.tensors()) {
    ATTNDB_CHECK(file.FindTensor(tensor.name) == &tensor);
    ATTNDB_CHECK(file.data_begin() <= bytes.size());
    ATTNDB_CHECK(tensor.offset <= bytes.size() - file.data_begin());
    ATTNDB_CHECK(tensor.num_bytes <= bytes.size() - file.data_begin() - tensor.offset);
  }
}

}  // namespace

GgufVerdict FuzzGguf(std::span<const uint8_t> input) {
  static const std::vector<llama::TensorForm> kForms = llama::FewTensorForms();
  if (input.empty()) return GgufVerdict::kNoGguf;
  const std::span<const uint8_t> rest = input.subspan(1);
  const std::string bytes =
      input[0] % 2 == 0 ? Edited(rest)
                        : std::string(reinterpret_cast<const char*>(rest.data()), rest.size());
  const Result<llama::GgufFile> file =
      llama::GgufFile::Parse(llama::AsBytes(bytes), kForms, "fuzzed");
  if (!file.ok()) {
    ATTNDB_CHECK(file.status().code() == StatusCode::kInvalidArgument);
    return GgufVerdict::kNoGguf;
  }
  ReadAll(*file, bytes);
  const Status adapter = llama::CheckAdapterFields(*file, kForms);
  const Status model = llama::CheckModelFields({&*file, 1}, kForms);
  return model.ok() || adapter.ok() ? GgufVerdict::kTaken : GgufVerdict::kRefused;
}

}  // namespace attndb::fuzz
