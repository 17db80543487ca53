// KvFileReader, and ImportKvFile over it.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/db_access.h"
#include "api/import.h"
#include "api/kv_file/kv_schema.h"
#include "api/kv_file/safetensors_file.h"
#include "attndb/kv_file.h"
#include "attndb/units.h"
#include "common/aligned_buffer.h"
#include "session/strided_rows.h"
#include "session/view_check.h"
#include "storage/io/file_system.h"

namespace attndb {
namespace internal {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;  // Read at a time.

Result<std::vector<TokenId>> ReadTokens(const SafetensorsReader& file, const KvSchema& schema) {
  std::vector<TokenId> tokens(schema.num_tokens);
  if (schema.tokens.dtype == "I32") {
    ATTNDB_RETURN_IF_ERROR(
        file.ReadAt(schema.tokens, 0, std::as_writable_bytes(std::span(tokens))));
  } else {
    std::vector<int64_t> wide(std::min<uint64_t>(schema.num_tokens, kBlockBytes / 8));
    for (uint64_t done = 0; done < schema.num_tokens; done += wide.size()) {
      wide.resize(std::min<uint64_t>(wide.size(), schema.num_tokens - done));
      ATTNDB_RETURN_IF_ERROR(
          file.ReadAt(schema.tokens, done * 8, std::as_writable_bytes(std::span(wide))));
      for (size_t i = 0; i < wide.size(); ++i) {
        // A value that does not fit becomes negative, and is refused below.
        const bool fits = wide[i] >= 0 && wide[i] <= INT32_MAX;
        tokens[done + i] = fits ? static_cast<TokenId>(wide[i]) : -1;
      }
    }
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      return Status::InvalidArgument("token " + std::to_string(i) +
                                     " has an id below 0 or above 2^31 - 1");
    }
  }
  return tokens;
}

}  // namespace

class KvFileReaderImpl {
 public:
  static Result<std::unique_ptr<KvFileReaderImpl>> Open(const std::string& path) {
    ATTNDB_ASSIGN_OR_RETURN(SafetensorsReader file,
                            SafetensorsReader::Open(storage::PosixFileSystem(), path));
    const std::string where = "file '" + path + "'";
    Result<KvSchema> schema = ParseKvSchema(file.header());
    if (!schema.ok()) return schema.status().WithContext(where);
    Result<std::vector<TokenId>> tokens = ReadTokens(file, *schema);
    if (!tokens.ok()) return tokens.status().WithContext(where);
    schema->contents.tokens = *std::move(tokens);
    return std::make_unique<KvFileReaderImpl>(where, std::move(file), *std::move(schema));
  }

  KvFileReaderImpl(std::string where, SafetensorsReader file, KvSchema schema)
      : where_(std::move(where)), file_(std::move(file)), schema_(std::move(schema)) {}

  const std::string& where() const { return where_; }
  const KvFileContents& contents() const { return schema_.contents; }

  // Errors: kInvalidArgument: the file has not this layer.
  Result<const KvFileLayer*> FindLayer(LayerId layer) const {
    const std::vector<LayerId>& layers = contents().layers;
    const auto at = std::lower_bound(layers.begin(), layers.end(), layer);
    if (at == layers.end() || *at != layer) {
      return Status::InvalidArgument(where_ + " has no layer " + std::to_string(layer));
    }
    return &schema_.layers[static_cast<size_t>(at - layers.begin())];
  }

  // Rows `range` of a tensor, as they lie: [num_heads, n, dim].
  Result<TensorView> ReadRows(const KvTensor& tensor, TokenRange range,
                              AlignedBuffer* buffer) const {
    const uint64_t row_bytes = tensor.dim * DTypeBytes(tensor.dtype);
    const uint64_t num_rows = range.end - range.begin;
    const uint64_t head_bytes = num_rows * row_bytes;
    if (buffer->size() < head_bytes * tensor.num_heads) {
      ATTNDB_ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Allocate(head_bytes * tensor.num_heads));
    }
    for (uint64_t head = 0; head < tensor.num_heads; ++head) {
      ATTNDB_RETURN_IF_ERROR(file_.ReadAt(tensor.entry,
                                          (head * tensor.num_rows + range.begin) * row_bytes,
                                          buffer->span().subspan(head * head_bytes, head_bytes)));
    }
    const auto n = static_cast<int64_t>(num_rows);
    return TensorView{buffer->data(),
                      tensor.dtype,
                      {n, tensor.num_heads, tensor.dim},
                      {tensor.dim, n * tensor.dim, 1}};
  }

  // Rows `range` of a tensor go to `to`, if that is not null.
  Status CopyRows(const char* name, LayerId layer, const KvTensor& tensor, TokenRange range,
                  const MutableTensorView& to) const {
    if (to.data == nullptr) return Status::Ok();
    const auto num_rows = static_cast<int64_t>(range.end - range.begin);
    ATTNDB_RETURN_IF_ERROR(CheckOutput(
        name, layer, to, {"the range", num_rows, tensor.num_heads, tensor.dim, tensor.dtype}));
    const uint64_t row_bytes = tensor.dim * DTypeBytes(tensor.dtype);
    const uint64_t block_rows = std::min(kBlockBytes / row_bytes, range.end - range.begin);
    std::vector<std::byte> block(block_rows * row_bytes);
    std::vector<std::byte> scratch;
    for (uint32_t head = 0; head < tensor.num_heads; ++head) {
      for (uint64_t row = range.begin; row < range.end; row += block_rows) {
        const uint64_t count = std::min(block_rows, range.end - row);
        ATTNDB_RETURN_IF_ERROR(file_.ReadAt(tensor.entry,
                                            (head * tensor.num_rows + row) * row_bytes,
                                            std::span(block).first(count * row_bytes)));
        ScatterRows(tensor.dtype, block.data(), tensor.dim, to, {head, row - range.begin, count},
                    &scratch);
      }
    }
    return Status::Ok();
  }

  // Checks that `range` lies in tokens [first, end).
  Status CheckRange(TokenRange range, uint64_t first) const {
    const uint64_t end = contents().tokens.size();
    if (range.begin >= first && range.begin < range.end && range.end <= end) return Status::Ok();
    return Status::InvalidArgument(where_ + ": tokens [" + std::to_string(range.begin) + ", " +
                                   std::to_string(range.end) + ") are asked for, but it has [" +
                                   std::to_string(first) + ", " + std::to_string(end) + ")");
  }
  uint64_t first_query() const { return contents().tokens.size() - contents().num_queries; }

 private:
  const std::string where_;
  const SafetensorsReader file_;
  const KvSchema schema_;
};

namespace {

// A file's rows for ImportContext. REQUIRES: the file is complete.
class FileSource final : public ImportSource {
 public:
  explicit FileSource(const KvFileReaderImpl* file) : file_(file) {}

  Result<LayerKv> Rows(LayerId layer, TokenRange range) override {
    ATTNDB_ASSIGN_OR_RETURN(const KvFileLayer* const tensors, file_->FindLayer(layer));
    LayerKv kv;
    ATTNDB_ASSIGN_OR_RETURN(kv.k, file_->ReadRows(tensors->k, range, &k_));
    ATTNDB_ASSIGN_OR_RETURN(kv.v, file_->ReadRows(tensors->v, range, &v_));
    return kv;
  }
  uint64_t num_queries(LayerId) const override { return file_->contents().num_queries; }
  Result<TensorView> Queries(LayerId layer, TokenRange range) override {
    ATTNDB_ASSIGN_OR_RETURN(const KvFileLayer* const tensors, file_->FindLayer(layer));
    const uint64_t first = file_->first_query();
    return file_->ReadRows(tensors->q, {range.begin - first, range.end - first}, &q_);
  }

 private:
  const KvFileReaderImpl* const file_;
  AlignedBuffer k_, v_, q_;  // One piece of one layer.
};

}  // namespace
}  // namespace internal

KvFileReader::KvFileReader(std::unique_ptr<internal::KvFileReaderImpl> impl)
    : impl_(std::move(impl)) {}
KvFileReader::KvFileReader(KvFileReader&&) noexcept = default;
KvFileReader& KvFileReader::operator=(KvFileReader&&) noexcept = default;
KvFileReader::~KvFileReader() = default;

Result<KvFileReader> KvFileReader::Open(const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::KvFileReaderImpl> impl,
                          internal::KvFileReaderImpl::Open(path));
  return KvFileReader(std::move(impl));
}

const KvFileContents& KvFileReader::contents() const { return impl_->contents(); }

Status KvFileReader::ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                            const MutableTensorView& v) const {
  ATTNDB_ASSIGN_OR_RETURN(const internal::KvFileLayer* const tensors, impl_->FindLayer(layer));
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRange(range, 0));
  ATTNDB_RETURN_IF_ERROR(impl_->CopyRows("k", layer, tensors->k, range, k));
  return impl_->CopyRows("v", layer, tensors->v, range, v);
}

Status KvFileReader::ReadQueries(LayerId layer, TokenRange range,
                                 const MutableTensorView& q) const {
  ATTNDB_ASSIGN_OR_RETURN(const internal::KvFileLayer* const tensors, impl_->FindLayer(layer));
  const uint64_t first = impl_->first_query();
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRange(range, first));
  return impl_->CopyRows("q", layer, tensors->q, {range.begin - first, range.end - first}, q);
}

Result<ContextId> KvFileReader::Import(const DB& db, const KvFileImportOptions& options) const {
  const KvFileContents& file = contents();
  if (!file.is_complete()) {
    return Status::InvalidArgument(impl_->where() + " holds " + FormatCount(file.layers.size()) +
                                   " of " + Counted(file.spec.num_layers(), "layer") +
                                   "; a context needs all");
  }
  ModelSpec spec = file.spec;
  if (!options.fingerprint.empty()) spec.fingerprint = options.fingerprint;
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  internal::FileSource source(impl_.get());
  internal::ImportRequest request = {.tenant = db.tenant(),
                                     .spec = &spec,
                                     .tokens = file.tokens,
                                     .cuts = file.cuts,
                                     .first_position = file.first_position,
                                     .store = options.store};
  if (request.store.text_layout.form == TextForm::kUnknown)
    request.store.text_layout = file.text_layout;
  if (request.store.title.empty()) request.store.title = file.title;
  if (request.store.note.empty()) request.store.note = file.note;
  if (options.progress) {
    request.progress = [&](uint64_t tokens_done, uint64_t tokens_total) {
      const uint64_t token_bytes = spec.KvBytesPerToken();
      return options.progress(tokens_done * token_bytes, tokens_total * token_bytes);
    };
  }
  ATTNDB_ASSIGN_OR_RETURN(
      const ContextNumber number,
      internal::ImportContext(internal::DbAccess::database(db), request, &source));
  return PublicId(number);
}

Result<ContextId> ImportKvFile(const DB& db, const std::string& path,
                               const KvFileImportOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const KvFileReader reader, KvFileReader::Open(path));
  return reader.Import(db, options);
}

}  // namespace attndb
