// ExportKvFile: a stored context to a file.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/database.h"
#include "api/db_access.h"
#include "attndb/kv_file.h"
#include "common/aligned_buffer.h"

namespace attndb {
namespace {

// An array of [heads, tokens, dim], as the file has it.
MutableTensorView HeadsFirst(std::byte* data, DType dtype, int64_t num_tokens, int64_t num_heads,
                             int64_t dim) {
  return {data, dtype, {num_tokens, num_heads, dim}, {dim, num_tokens * dim, 1}};
}

TensorView ReadOnly(const MutableTensorView& view) {
  return {view.data, view.dtype, view.shape, view.strides};
}

Status WriteLayers(const internal::SessionImpl& session, const KvFileProgress& progress,
                   KvFileWriter* writer) {
  const ModelSpec& spec = session.spec();
  const uint64_t num_tokens = session.num_tokens();
  const auto n = static_cast<int64_t>(num_tokens);
  uint64_t bytes_done = 0;
  AlignedBuffer buffer;
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    const uint64_t element_bytes = num_tokens * shape.num_kv_heads * DTypeBytes(spec.kv_dtype);
    const uint64_t k_bytes = element_bytes * shape.head_dim;
    const uint64_t num_bytes = k_bytes + element_bytes * shape.v_head_dim;
    if (buffer.size() < num_bytes) {
      buffer = AlignedBuffer();  // Before the next: one layer at a time.
      ATTNDB_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(num_bytes));
    }
    const MutableTensorView k =
        HeadsFirst(buffer.data(), spec.kv_dtype, n, shape.num_kv_heads, shape.head_dim);
    const MutableTensorView v =
        HeadsFirst(buffer.data() + k_bytes, spec.kv_dtype, n, shape.num_kv_heads, shape.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(session.ReadKv(layer, {0, num_tokens}, k, v));
    ATTNDB_RETURN_IF_ERROR(writer->WriteLayer(layer, ReadOnly(k), ReadOnly(v)));
    bytes_done += num_bytes;
    if (progress && !progress(bytes_done, num_tokens * spec.KvBytesPerToken())) {
      return Status::Cancelled("export stopped after layer " + std::to_string(layer));
    }
  }
  return Status::Ok();
}

}  // namespace

Status ExportKvFile(const DB& db, std::string_view context, const std::string& path,
                    const KvFileExportOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<internal::SessionImpl> session,
                          internal::DbAccess::database(db)->OpenWhole(db.tenant(), context));
  KvFileContents contents;
  contents.spec = session->spec();
  contents.tokens = session->chain().tokens();
  contents.first_position = session->chain().first_position();
  contents.cuts = session->truncation().cuts();
  ATTNDB_ASSIGN_OR_RETURN(ContextInfo info, db.Describe(context));
  if (info.num_tokens == contents.tokens.size()) contents.text_layout = std::move(info.text_layout);
  contents.title = std::move(info.title);
  ATTNDB_ASSIGN_OR_RETURN(contents.note, db.Note(context));
  ATTNDB_ASSIGN_OR_RETURN(KvFileWriter writer, KvFileWriter::Create(path, contents));
  ATTNDB_RETURN_IF_ERROR(WriteLayers(*session, options.progress, &writer));
  return writer.Finish();
}

}  // namespace attndb
