// The flags that say which vectors a benchmark runs on, and the source that they name.
//
// Errors:  kInvalidArgument for flags that do not go together; those of head_source.h.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_VECTOR_FLAGS_H_
#define ATTNDB_BENCH_HEADS_VECTOR_FLAGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "bench/heads/head_source.h"
#include "cli/flags.h"

namespace attndb::bench {

class VectorFlags {
 public:
  // The object must outlive the parse.
  void AddTo(cli::Flags* flags);

  // What the parsed flags name; without any, synthetic heads of Llama 3 8B's geometry.
  Result<std::unique_ptr<HeadSource>> Open() const;

 private:
  std::string capture_;
  std::string layers_;
  uint64_t first_tokens_ = 0;  // 0: all.
  uint32_t group_size_ = 0;    // 0: as captured.
  uint64_t stretch_ = 0;       // 0: as long as captured.
  std::string keys_;
  std::string values_;
  std::string queries_;
  std::string geometry_;
  uint64_t num_tokens_ = 32768;
  DType kv_dtype_ = DType::kFloat16;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_VECTOR_FLAGS_H_
