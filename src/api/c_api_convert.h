// Converts the structs of c_api.h to values of the C++ API. Checks the mistakes that only a C
// caller can make: sizes, null pointers and enum numbers. The C++ API checks the meaning of the
// values.
//
// Errors:  kInvalidArgument naming struct and field; kUnsupported for a field of a newer version.
// Threads: stateless.
#ifndef ATTNDB_API_C_API_CONVERT_H_
#define ATTNDB_API_C_API_CONVERT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "attndb/c_api.h"
#include "attndb/find.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb::internal {

// Makes the error of CopyStruct, outside of the template.
Status StructTooSmall(const char* name, size_t found, size_t expected);
Status StructTooNew(const char* name, size_t found, size_t known);

// Size of the struct's first version, the smallest that is accepted. Specialized for structs that
// have grown since.
template <typename Struct>
inline constexpr size_t kLeastBytes = sizeof(Struct);
template <>
inline constexpr size_t kLeastBytes<attndb_layer_spec> = offsetof(attndb_layer_spec,
                                                                  denominator_logits);

template <>
inline constexpr size_t kLeastBytes<attndb_session_options> = offsetof(attndb_session_options,
                                                                       not_truncated);

// Copies `*from` to the struct as this library knows it. Fields that an older caller lacks become
// zero; bytes that only a newer caller has must be zero.
template <typename Struct>
Result<Struct> CopyStruct(const Struct* from, const char* name) {
  size_t struct_size = 0;
  std::memcpy(&struct_size, from, sizeof(struct_size));
  if (struct_size < kLeastBytes<Struct>) {
    return StructTooSmall(name, struct_size, kLeastBytes<Struct>);
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(Struct); i < struct_size; ++i) {
    if (bytes[i] != 0) return StructTooNew(name, struct_size, sizeof(Struct));
  }
  Struct copy = {};
  std::memcpy(&copy, from, std::min(struct_size, sizeof(copy)));
  return copy;
}

// `name` is the argument's name, for messages. An output needs its data pointer even if it has no
// rows.
Result<TensorView> ToView(const attndb_tensor* tensor, const char* name);
Result<MutableTensorView> ToMutableView(const attndb_tensor* tensor, const char* name);
// `count` tensors, each with the struct_size of the first.
Result<std::vector<TensorView>> ToViews(const attndb_tensor* tensors, size_t count,
                                        const char* name);

Result<ModelSpec> ToModelSpec(const attndb_model_spec* spec);
Result<DBOptions> ToDBOptions(const attndb_db_options* options);
// `count` ranges; null if there are none.
Result<std::vector<TokenRange>> ToRanges(const attndb_token_range* ranges, size_t count,
                                         const char* name);
Result<DropOptions> ToDropOptions(const attndb_drop_options* options);
Result<SessionOptions> ToSessionOptions(const attndb_session_options* options);
Result<StoreOptions> ToStoreOptions(const attndb_store_options* options);
Result<FindOptions> ToFindOptions(const attndb_find_options* options);
Result<RoomOptions> ToRoomOptions(const attndb_room_options* options);
Result<CompactOptions> ToCompactOptions(const attndb_compact_options* options);

Result<std::span<const TokenId>> ToTokens(const int32_t* tokens, size_t num_tokens);
Result<std::vector<std::string>> ToNames(const char* const* names, size_t count,
                                         const char* argument);

}  // namespace attndb::internal

#endif  // ATTNDB_API_C_API_CONVERT_H_
