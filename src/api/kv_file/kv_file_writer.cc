// KvFileWriter.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/kv_file/kv_schema.h"
#include "api/kv_file/safetensors_file.h"
#include "attndb/kv_file.h"
#include "attndb/units.h"
#include "common/coding.h"
#include "session/strided_rows.h"
#include "session/view_check.h"
#include "storage/io/file_system.h"

namespace attndb {
namespace internal {

class KvFileWriterImpl {
 public:
  static Result<std::unique_ptr<KvFileWriterImpl>> Create(const std::string& path,
                                                          KvFileContents contents) {
    if (contents.layers.empty()) {
      for (LayerId layer = 0; layer < contents.spec.num_layers(); ++layer) {
        contents.layers.push_back(layer);
      }
    }
    Result<SafetensorsHeader> header = FormatKvSchema(contents);
    if (!header.ok()) return header.status().WithContext("file '" + path + "'");
    ATTNDB_ASSIGN_OR_RETURN(SafetensorsWriter file,
                            SafetensorsWriter::Create(storage::PosixFileSystem(), path, *header));
    ATTNDB_RETURN_IF_ERROR(file.Append(BytesOf(contents.tokens)));
    return std::make_unique<KvFileWriterImpl>(std::move(file), std::move(contents));
  }

  KvFileWriterImpl(SafetensorsWriter file, KvFileContents contents)
      : file_(std::move(file)), contents_(std::move(contents)) {}

  Status WriteLayer(LayerId layer, const TensorView& k, const TensorView& v, const TensorView& q) {
    ATTNDB_RETURN_IF_ERROR(status_);
    ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, k, v, q));
    status_ = WriteArray("k", layer, k, contents_.spec.kv_dtype);
    if (status_.ok()) status_ = WriteArray("v", layer, v, contents_.spec.kv_dtype);
    if (status_.ok() && contents_.num_queries > 0) {
      status_ = WriteArray("q", layer, q, contents_.query_dtype);
    }
    if (status_.ok()) {
      ++num_written_;
      return Status::Ok();
    }
    return std::exchange(status_, Status::FailedPrecondition("an earlier layer was not written"));
  }

  Status Finish() {
    ATTNDB_RETURN_IF_ERROR(status_);
    if (num_written_ < contents_.layers.size()) {
      return Status::FailedPrecondition(FormatCount(num_written_) + " of " +
                                        Counted(contents_.layers.size(), "layer") +
                                        " written so far");
    }
    status_ = Status::FailedPrecondition("the file is finished");
    return file_.Finish();
  }

 private:
  Status CheckLayer(LayerId layer, const TensorView& k, const TensorView& v,
                    const TensorView& q) const {
    if (num_written_ == contents_.layers.size()) {
      return Status::FailedPrecondition("all layers are written");
    }
    const LayerId next = contents_.layers[num_written_];
    if (layer != next) {
      return Status::FailedPrecondition("layer " + std::to_string(layer) +
                                        " out of order; expected layer " + std::to_string(next));
    }
    const LayerSpec& spec = contents_.spec.layers[layer];
    const auto num_tokens = static_cast<int64_t>(contents_.tokens.size());
    ATTNDB_RETURN_IF_ERROR(CheckRows("k", layer, k, num_tokens, spec.num_kv_heads, spec.head_dim));
    ATTNDB_RETURN_IF_ERROR(
        CheckRows("v", layer, v, num_tokens, spec.num_kv_heads, spec.v_head_dim));
    if (contents_.num_queries > 0) {
      return CheckRows("q", layer, q, static_cast<int64_t>(contents_.num_queries), spec.num_q_heads,
                       spec.head_dim);
    }
    if (q.data == nullptr) return Status::Ok();
    return Status::InvalidArgument("layer " + std::to_string(layer) +
                                   ": q is given, but the file has no queries");
  }

  static Status CheckRows(const char* name, LayerId layer, const TensorView& view, int64_t num_rows,
                          uint32_t num_heads, uint32_t dim) {
    ATTNDB_RETURN_IF_ERROR(CheckInput(name, layer, view, num_heads, dim));
    if (view.rows() == num_rows) return Status::Ok();
    return Status::InvalidArgument("layer " + std::to_string(layer) + ": " + name + " has " +
                                   RowsText(view.rows()) + ", expected " + RowsText(num_rows));
  }

  Status WriteArray(const char* name, LayerId layer, const TensorView& view, DType dtype) {
    constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
    const uint64_t row_bytes = static_cast<uint64_t>(view.dim()) * DTypeBytes(dtype);
    const uint64_t block_rows = kBlockBytes / row_bytes;
    const auto num_rows = static_cast<uint64_t>(view.rows());
    block_.resize(block_rows * row_bytes);
    for (uint32_t head = 0; head < view.heads(); ++head) {
      for (uint64_t row = 0; row < num_rows; row += block_rows) {
        const uint64_t count = std::min(block_rows, num_rows - row);
        if (GatherRows(view, {head, row, count}, dtype, block_.data(), &scratch_).overflow) {
          return Status::InvalidArgument(
              std::string(name) + " of layer " + std::to_string(layer) + ", head " +
              std::to_string(head) + ", rows " + std::to_string(row) + " to " +
              std::to_string(row + count - 1) + " has a value beyond the range of " +
              std::string(DTypeName(dtype)) + "; use a wider type");
        }
        ATTNDB_RETURN_IF_ERROR(file_.Append(std::span(block_).first(count * row_bytes)));
      }
    }
    return Status::Ok();
  }

  SafetensorsWriter file_;
  const KvFileContents contents_;
  size_t num_written_ = 0;  // Layers of contents_.layers that are written.
  Status status_;           // Why nothing more can be written.
  std::vector<std::byte> block_;
  std::vector<std::byte> scratch_;
};

}  // namespace internal

KvFileWriter::KvFileWriter(std::unique_ptr<internal::KvFileWriterImpl> impl)
    : impl_(std::move(impl)) {}
KvFileWriter::KvFileWriter(KvFileWriter&&) noexcept = default;
KvFileWriter& KvFileWriter::operator=(KvFileWriter&&) noexcept = default;
KvFileWriter::~KvFileWriter() = default;

Result<KvFileWriter> KvFileWriter::Create(const std::string& path, const KvFileContents& contents) {
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::KvFileWriterImpl> impl,
                          internal::KvFileWriterImpl::Create(path, contents));
  return KvFileWriter(std::move(impl));
}

Status KvFileWriter::WriteLayer(LayerId layer, const TensorView& k, const TensorView& v,
                                const TensorView& q) {
  return impl_->WriteLayer(layer, k, v, q);
}

Status KvFileWriter::Finish() { return impl_->Finish(); }

}  // namespace attndb
