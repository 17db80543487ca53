#include "storage/kv/segment_writer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/coding.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/non_finite.h"
#include "storage/kv/segment_layout.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_writer.h"

namespace attndb::storage {
namespace {

// Copied, scanned and checksummed as one piece, while it is in the L1 cache.
constexpr uint64_t kPieceBytes = uint64_t{16} << 10;

Status Expected(const std::string& what, uint64_t expected, uint64_t found) {
  return Status::InvalidArgument(what + ": expected " + std::to_string(expected) + ", found " +
                                 std::to_string(found));
}

// One call of WriteSegment.
class Writer {
 public:
  Writer(const SegmentWriteOptions& options, SegmentSource* source)
      : options_(options),
        shape_(options.identity.shape),
        num_tokens_(options.identity.num_tokens),
        layout_(shape_),
        sections_(SectionsOf(shape_)),
        source_(source) {}

  Result<WrittenSegment> Write() {
    ATTNDB_RETURN_IF_ERROR(CheckTokens());
    const uint64_t head_bytes = kSegmentHeaderBytes + SectionTableBytes(sections_.size());
    ATTNDB_ASSIGN_OR_RETURN(
        object_, ObjectWriter::Create({.file_system = options_.file_system,
                                       .dir = options_.dir,
                                       .name = {.segment_id = options_.identity.segment_id},
                                       .head_bytes = head_bytes,
                                       .cancel = options_.cancel}));
    ATTNDB_RETURN_IF_ERROR(WriteTokens());
    for (LayerId layer = 0; layer < shape_.layers.size(); ++layer) {
      ATTNDB_RETURN_IF_ERROR(source_->LoadLayer(layer));
      ATTNDB_RETURN_IF_ERROR(WriteLayer(layer));
    }
    return Finish();
  }

 private:
  Status CheckTokens() const {
    const std::span<const TokenId> tokens = source_->tokens();
    if (tokens.size() != num_tokens_) return Expected("tokens", num_tokens_, tokens.size());
    const auto negative = std::ranges::find_if(tokens, [](TokenId token) { return token < 0; });
    if (negative == tokens.end()) return Status::Ok();
    return Status::InvalidArgument("token " + std::to_string(negative - tokens.begin()) +
                                   ": expected 0 or more, found " + std::to_string(*negative));
  }

  Status WriteTokens() {
    ATTNDB_RETURN_IF_ERROR(BeginSection(layout_.tokens(), num_tokens_, sizeof(TokenId)));
    return object_->Append(BytesOf(source_->tokens()));
  }

  Status WriteLayer(LayerId layer) {
    const uint32_t num_heads = shape_.layers[layer].num_kv_heads;
    written_.non_finite.emplace_back(num_heads, false);
    for (uint32_t head = 0; head < num_heads; ++head) {
      const std::span<const KvRows> runs = source_->rows(head);
      ATTNDB_RETURN_IF_ERROR(CheckRuns(runs, layer, head));
      ATTNDB_RETURN_IF_ERROR(
          WriteRows(layout_.keys(layer, head), runs, &KvRows::k, KRowBytes(shape_, layer)));
      ATTNDB_RETURN_IF_ERROR(
          WriteRows(layout_.values(layer, head), runs, &KvRows::v, VRowBytes(shape_, layer)));
    }
    for (uint32_t head = 0; head < num_heads; ++head) {
      ATTNDB_RETURN_IF_ERROR(WriteQueries(layer, head, source_->queries(head)));
    }
    return Status::Ok();
  }

  Status CheckRuns(std::span<const KvRows> runs, LayerId layer, uint32_t head) const {
    uint64_t sum = 0;
    for (const KvRows& run : runs) sum += run.num_tokens;
    if (sum == num_tokens_) return Status::Ok();
    return Expected("rows of layer " + std::to_string(layer) + ", head " + std::to_string(head),
                    num_tokens_, sum);
  }

  Status WriteRows(uint64_t index, std::span<const KvRows> runs, const std::byte* KvRows::*rows,
                   uint64_t row_bytes) {
    ATTNDB_RETURN_IF_ERROR(BeginSection(index, num_tokens_, row_bytes));
    bool non_finite = false;
    for (const KvRows& run : runs) {
      std::span<const std::byte> data(run.*rows, run.num_tokens * row_bytes);
      while (!data.empty()) {
        const auto piece = data.first(std::min<size_t>(data.size(), kPieceBytes));
        non_finite = non_finite || HasNonFinite(shape_.dtype, piece);
        ATTNDB_RETURN_IF_ERROR(object_->Append(piece));
        data = data.subspan(piece.size());
      }
    }
    if (non_finite) {
      sections_[index].flags |= kSectionNonFinite;
      written_.non_finite[sections_[index].layer][sections_[index].head] = true;
    }
    return Status::Ok();
  }

  Status WriteQueries(LayerId layer, uint32_t head, std::span<const QueryRows> pieces) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_rows, CountQueries(layer, head, pieces));
    const uint64_t rows = layout_.queries(layer, head);
    const uint64_t row_bytes = KRowBytes(shape_, layer);
    ATTNDB_RETURN_IF_ERROR(BeginSection(rows, num_rows, row_bytes));
    for (const QueryRows& piece : pieces) {
      ATTNDB_RETURN_IF_ERROR(object_->Append({piece.q, piece.num_rows() * row_bytes}));
    }

    const uint64_t refs = layout_.query_refs(layer, head);
    ATTNDB_RETURN_IF_ERROR(BeginSection(refs, num_rows, kQueryRefBytes));
    for (const auto field : {&QueryRows::tokens, &QueryRows::q_heads}) {
      for (const QueryRows& piece : pieces) {
        ATTNDB_RETURN_IF_ERROR(object_->Append(BytesOf(piece.*field)));
      }
    }
    written_.query_bytes += sections_[rows].length + sections_[refs].length;
    return Status::Ok();
  }

  // Counts the rows of all pieces. Their token indices must ascend.
  Result<uint64_t> CountQueries(LayerId layer, uint32_t head,
                                std::span<const QueryRows> pieces) const {
    const std::string what =
        "queries of layer " + std::to_string(layer) + ", head " + std::to_string(head) + ": ";
    uint64_t num_rows = 0;
    uint32_t previous = 0;
    for (const QueryRows& piece : pieces) {
      if (piece.q_heads.size() != piece.tokens.size()) {
        return Expected(what + "q_heads", piece.tokens.size(), piece.q_heads.size());
      }
      for (const uint32_t token : piece.tokens) {
        if (token < previous || token >= num_tokens_) {
          return Status::InvalidArgument(
              what + "token index: expected " + std::to_string(previous) + " to " +
              std::to_string(num_tokens_ - 1) + ", found " + std::to_string(token));
        }
        previous = token;
      }
      num_rows += piece.num_rows();
    }
    return num_rows;
  }

  // Sections come in their order; the caller appends the rows.
  Status BeginSection(uint64_t index, uint64_t num_rows, uint64_t row_bytes) {
    SectionEntry& section = sections_[index];
    section.num_rows = num_rows;
    section.length = num_rows * row_bytes;
    const SectionEntry* const previous = index == 0 ? nullptr : &sections_[index - 1];
    ATTNDB_RETURN_IF_ERROR(object_->Align(AlignmentOf(section, previous)));
    section.offset = object_->position();
    return Status::Ok();
  }

  Result<WrittenSegment> Finish() {
    std::vector<std::byte> head = EncodeSegmentHeader({.identity = options_.identity,
                                                       .num_sections = sections_.size(),
                                                       .object_bytes = object_->position()});
    const std::vector<std::byte> table = EncodeSectionTable(sections_);
    head.insert(head.end(), table.begin(), table.end());
    ATTNDB_ASSIGN_OR_RETURN(const WrittenObject object, object_->Finish(head));
    written_.root_hash = object.root_hash;
    written_.file_bytes = object.object_bytes + object.manifest_bytes;
    return std::move(written_);
  }

  const SegmentWriteOptions& options_;
  const KvShape& shape_;
  const uint64_t num_tokens_;
  const SegmentLayout layout_;
  std::vector<SectionEntry> sections_;
  SegmentSource* const source_;
  std::unique_ptr<ObjectWriter> object_;
  WrittenSegment written_;
};

}  // namespace

Result<WrittenSegment> WriteSegment(const SegmentWriteOptions& options, SegmentSource* source) {
  ATTNDB_RETURN_IF_ERROR(ValidateShape(options.identity.shape));
  const uint64_t num_tokens = options.identity.num_tokens;
  if (num_tokens == 0 || num_tokens > kMaxSegmentTokens) {
    return Status::InvalidArgument("num_tokens: expected 1 to " +
                                   std::to_string(kMaxSegmentTokens) + ", found " +
                                   std::to_string(num_tokens));
  }
  return Writer(options, source).Write();
}

}  // namespace attndb::storage
