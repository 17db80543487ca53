#include "derived/custom_kind.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/aligned_buffer.h"
#include "common/checked_math.h"
#include "index/custom/custom_keys.h"
#include "kernels/convert.h"

namespace attndb::derived {
namespace {

// Rows as float32, without their padding.
class FloatRows {
 public:
  // `rows`: padded, of the type. Errors: kResourceExhausted.
  static Result<FloatRows> Make(const std::byte* rows, DType dtype, uint64_t num_rows,
                                uint32_t num_elements) {
    const CheckedSize bytes = CheckedMul(CheckedMul(num_rows, num_elements), sizeof(float));
    if (!bytes) return Status::ResourceExhausted("rows of a custom index: too many");
    FloatRows made;
    ATTNDB_ASSIGN_OR_RETURN(made.buffer_, AlignedBuffer::Allocate(*bytes));
    made.size_ = num_rows * num_elements;
    kernels::ConvertRows(dtype, rows, kernels::RowElements(num_elements), DType::kFloat32,
                         made.buffer_.data(), num_elements, num_rows, num_elements, num_elements);
    return made;
  }

  std::span<const float> span() const {
    return {reinterpret_cast<const float*>(buffer_.data()), size_};
  }

 private:
  AlignedBuffer buffer_;
  size_t size_ = 0;
};

class CustomKind final : public Kind {
 public:
  explicit CustomKind(const CustomIndexType& type)
      : Kind({.use = CustomUse(type.name),
              .object = CustomUse(type.name),
              .parts = {},
              .is_custom = true}),
        type_(std::make_shared<const CustomIndexType>(type)) {}

  uint64_t HeadBytes(const storage::KvRun&, LayerId, const LayerSpec&) const override { return 0; }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const storage::KvRun& run = *source.run;
    const DType dtype = run.shape().dtype;
    const LayerSpec& spec = *source.spec;
    const storage::QueryRows& sampled = source.keys->queries;
    ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows v,
                            run.ReadRows(source.layer, source.kv_head, storage::RowPart::kValues));
    ATTNDB_ASSIGN_OR_RETURN(const FloatRows keys,
                            FloatRows::Make(source.rows, dtype, run.num_tokens(), spec.head_dim));
    ATTNDB_ASSIGN_OR_RETURN(const FloatRows values,
                            FloatRows::Make(v.data(), dtype, run.num_tokens(), spec.v_head_dim));
    ATTNDB_ASSIGN_OR_RETURN(const FloatRows queries,
                            FloatRows::Make(sampled.q, dtype, sampled.num_rows(), spec.head_dim));
    ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<const index::CustomKeys> made,
                            index::CustomKeys::Build(type_,
                                                     {.layer = source.layer,
                                                      .kv_head = source.kv_head,
                                                      .num_rows = run.num_tokens(),
                                                      .head_dim = spec.head_dim,
                                                      .v_head_dim = spec.v_head_dim,
                                                      .keys = keys.span(),
                                                      .values = values.span(),
                                                      .queries = queries.span(),
                                                      .query_rows = sampled.tokens,
                                                      .first_position = run.first_position(),
                                                      .scale = spec.scale},
                                                     /*is_extension=*/!run.is_sealed()));
    BuiltHead built;
    built.head.index = made.get();
    built.head.owner = std::move(made);
    built.num_rows = run.num_tokens();
    return built;
  }

  Result<Head> Parse(HeadParts parts) const override {
    return Status::Unsupported(parts.name + ": objects of custom indexes are kept in memory only");
  }

 private:
  const std::shared_ptr<const CustomIndexType> type_;
};

}  // namespace

std::string CustomUse(std::string_view name) { return "custom_" + std::string(name); }

std::unique_ptr<const Kind> MakeCustomKind(const CustomIndexType& type) {
  return std::make_unique<const CustomKind>(type);
}

}  // namespace attndb::derived
