// A kind of derived object: what it is called, what it is made from, and how it is made, written
// and read, one kv head at a time.
//
// A kind gives functions of one head; what is done for all heads of a layer or of a run follows
// from them, and is here once for all kinds. kinds.h lists the kinds that there are.
//
// Errors:  those of the run, of the object's file and of the index that is made:
//          kResourceExhausted, kCorruption, kUnsupported, kIoError, kCancelled.
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_KIND_H_
#define ATTNDB_DERIVED_KIND_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/thread_pool.h"
#include "index/cluster_sums.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "index/planes/plane_source.h"
#include "index/token_ranking.h"
#include "kernels/layout.h"
#include "kernels/value_planes.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/kv_run.h"

namespace attndb::derived {

// What an object gives for one kv head: those of these that its kind is about. All are null for a
// head that has none, as one with NaN or Inf.
struct Head {
  const index::KeyEstimates* estimates = nullptr;
  const index::KeyIndex* index = nullptr;
  const kernels::ValuePlanesView* value_planes = nullptr;
  const kernels::ValueMeansView* value_means = nullptr;
  const index::ClusterSums* sums = nullptr;
  const index::TokenRanking* ranking = nullptr;
  std::shared_ptr<const void> owner;  // Keeps them.
};

// A head that was made just now, with the bytes that are written of it.
struct BuiltHead {
  Head head;
  std::vector<std::span<const std::byte>> parts;  // Into head.owner; empty if it has none.
  uint64_t num_rows = 0;                          // 0 if it has none.
};

// An object of a run's first tokens, but not of all, from which one of the run can go on.
struct PriorObject {
  std::shared_ptr<const storage::Companion> object;
  uint64_t num_tokens = 0;
};

// A head of it.
struct PriorHead {
  std::string name;                         // For errors.
  std::vector<storage::ObjectRange> parts;  // In the order of the kind's parts.
  uint64_t num_tokens = 0;
};

// What a head is made from.
struct HeadSource {
  const storage::KvRun* run = nullptr;
  LayerId layer = 0;
  uint32_t kv_head = 0;
  const LayerSpec* spec = nullptr;
  const std::byte* rows = nullptr;            // Of K or V, as the kind says.
  const index::PlaneSource* keys = nullptr;   // Null if the kind is made of values.
  ThreadPool* pool = nullptr;                 // For the caller alone.
  const std::atomic<bool>* cancel = nullptr;  // May be null.
  const PriorHead* prior = nullptr;           // Null, or the kind grows.
};

// What a head is read from.
struct HeadParts {
  const storage::KvRun* run = nullptr;
  LayerId layer = 0;
  const LayerSpec* spec = nullptr;
  std::string name;                         // Of object, layer and head, for errors.
  std::vector<storage::ObjectRange> parts;  // In the order of the kind's parts.
};

class Kind {
 public:
  enum class Rows { kKeys, kValues };
  struct Traits {
    std::string use;                  // What sessions and plans call it: kinds.h.
    std::string object;               // Names its objects; one whose bytes change gets another.
    std::vector<std::string> parts;   // Of each head.
    uint64_t min_tokens = 0;          // Shorter runs have none.
    std::vector<std::string> former;  // Names of objects with other bytes, which nobody reads.
    Rows made_of = Rows::kKeys;
    bool always = false;  // Built for each segment; others once a plan has asked for them.
    // Takes much longer than a pass over the rows: built for the disk only, behind no other kind.
    bool slow = false;
    bool grows = false;  // Can go on from an object of the first tokens.
    // Of the caller's own code: kept in memory only, by the bytes that its indexes report once they
    // are built, and made in the lane of what is slow.
    bool is_custom = false;
  };

  explicit Kind(Traits traits) : traits_(std::move(traits)) {}
  virtual ~Kind() = default;
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;

  const Traits& traits() const { return traits_; }
  bool MayHave(uint64_t num_tokens) const { return num_tokens >= traits_.min_tokens; }

  // Bytes of all parts of a head, at most.
  virtual uint64_t HeadBytes(const storage::KvRun& run, LayerId layer,
                             const LayerSpec& spec) const = 0;
  virtual Result<BuiltHead> Build(const HeadSource& source) const = 0;
  // REQUIRES: the parts are not empty.
  virtual Result<Head> Parse(HeadParts parts) const = 0;

  // What the run's object takes at most: a head that has none takes nothing.
  uint64_t ObjectBytes(const storage::KvRun& run, const ModelSpec& spec) const;
  // Memory that a layer takes, built or read.
  uint64_t MemoryBytes(const storage::KvRun& run, LayerId layer, const LayerSpec& spec) const;

  struct BuildOptions {
    ThreadPool* pool = nullptr;
    const std::atomic<bool>* cancel = nullptr;
    const PriorObject* prior = nullptr;
  };
  // All heads of a layer.
  Result<std::vector<Head>> BuildLayer(const storage::KvRun& run, LayerId layer,
                                       const LayerSpec& spec, const BuildOptions& options) const;
  Result<std::vector<Head>> ReadLayer(const storage::Companion& object, const storage::KvRun& run,
                                      LayerId layer, const LayerSpec& spec) const;
  // Adds all parts of all heads. Holds what is made of one head at a time. `layer_done` is called
  // after each layer. `prior`: null, or what heads go on from, as far as it can be read.
  Status Write(const storage::KvRun& run, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer, const std::function<void(LayerId)>& layer_done,
               const PriorObject* prior = nullptr) const;

 private:
  const Traits traits_;
};

// Whether plans are looked at in such a layer, so that its objects are read.
bool HasObjects(const LayerSpec& spec);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_KIND_H_
