// A kind of derived object: its names, its source, and how it is made, written and read, one kv
// head at a time.
//
// A kind implements functions of one head. The work for all heads of a layer or of a run follows
// from these, and is here once for all kinds. kinds.h lists the existing kinds.
//
// Errors:  those of the run, of the object's file and of the index that is built:
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

// An object's data for one kv head; a kind fills the fields that concern it. All are null for a
// head without an object, such as a head with NaN or Inf.
struct Head {
  const index::KeyEstimates* estimates = nullptr;
  const index::KeyIndex* index = nullptr;
  const kernels::ValuePlanesView* value_planes = nullptr;
  const kernels::ValueMeansView* value_means = nullptr;
  const index::ClusterSums* sums = nullptr;
  const index::TokenRanking* ranking = nullptr;
  std::shared_ptr<const void> owner;  // Keeps the data of the pointers above alive.
};

// A newly built head, with the bytes to write.
struct BuiltHead {
  Head head;
  // Points into head.owner; empty if the head has nothing.
  std::vector<std::span<const std::byte>> parts;
  uint64_t num_rows = 0;  // 0 if the head has nothing.
};

// An object of a run's first tokens only, from which the run's own object can grow.
struct PriorObject {
  std::shared_ptr<const storage::Companion> object;
  uint64_t num_tokens = 0;
};

// One head of a PriorObject.
struct PriorHead {
  std::string name;                         // Names the object, for errors.
  std::vector<storage::ObjectRange> parts;  // In the order of the kind's parts.
  uint64_t num_tokens = 0;
};

// The input for building a head.
struct HeadSource {
  const storage::KvRun* run = nullptr;
  LayerId layer = 0;
  uint32_t kv_head = 0;
  const LayerSpec* spec = nullptr;
  const std::byte* rows = nullptr;            // Rows of K or V: Traits::made_of.
  const index::PlaneSource* keys = nullptr;   // Null if the kind is made from values.
  ThreadPool* pool = nullptr;                 // For this build only.
  const std::atomic<bool>* cancel = nullptr;  // May be null.
  // Null if there is no object to grow from, or the kind does not grow.
  const PriorHead* prior = nullptr;
};

// The input for reading a head.
struct HeadParts {
  const storage::KvRun* run = nullptr;
  LayerId layer = 0;
  const LayerSpec* spec = nullptr;
  std::string name;                         // Names object, layer and head, for errors.
  std::vector<storage::ObjectRange> parts;  // In the order of the kind's parts.
};

class Kind {
 public:
  enum class Rows { kKeys, kValues };
  struct Traits {
    std::string use;     // The kind's name in sessions and plans: kinds.h.
    std::string object;  // Name of its objects; if their bytes change, they get another name.
    std::vector<std::string> parts;  // Names of the parts that each head has.
    uint64_t min_tokens = 0;         // Shorter runs have no object.
    // Names of earlier objects with other bytes, which are no longer read.
    std::vector<std::string> former;
    Rows made_of = Rows::kKeys;
    bool always = false;  // Built for each segment. False: built once a plan has asked for it.
    // Takes much longer than a pass over the rows: built on disk only, and in a lane without fast
    // kinds.
    bool slow = false;
    bool grows = false;  // Its objects can grow from an object of the run's first tokens.
    // Name of the object that an interrupted build leaves: its finished heads. The next build takes
    // them over. Empty: it leaves nothing.
    std::string begun;
    // The caller's own code. Its objects are kept in memory only, are counted by the bytes that
    // they report after the build, and are built in the slow lane.
    bool is_custom = false;
  };

  explicit Kind(Traits traits) : traits_(std::move(traits)) {}
  virtual ~Kind() = default;
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;

  const Traits& traits() const { return traits_; }
  bool MayHave(uint64_t num_tokens) const { return num_tokens >= traits_.min_tokens; }

  // Bytes of all parts of one head, at most.
  virtual uint64_t HeadBytes(const storage::KvRun& run, LayerId layer,
                             const LayerSpec& spec) const = 0;
  virtual Result<BuiltHead> Build(const HeadSource& source) const = 0;
  // Makes a head from verified bytes. REQUIRES: the parts are not empty.
  virtual Result<Head> Parse(HeadParts parts) const = 0;

  // The most bytes of the run's object on disk. A head without an object takes none.
  uint64_t ObjectBytes(const storage::KvRun& run, const ModelSpec& spec) const;
  // Bytes of memory of one layer, built or read.
  uint64_t MemoryBytes(const storage::KvRun& run, LayerId layer, const LayerSpec& spec) const;

  struct BuildOptions {
    ThreadPool* pool = nullptr;
    const std::atomic<bool>* cancel = nullptr;
    const PriorObject* prior = nullptr;
  };
  // Builds, or reads, all heads of a layer.
  Result<std::vector<Head>> BuildLayer(const storage::KvRun& run, LayerId layer,
                                       const LayerSpec& spec, const BuildOptions& options) const;
  Result<std::vector<Head>> ReadLayer(const storage::Companion& object, const storage::KvRun& run,
                                      LayerId layer, const LayerSpec& spec) const;
  // Builds all heads and adds their parts to `writer`; holds one head in memory at a time. Calls
  // `layer_done` after each layer. `prior`: null, or the object from which heads grow, as far as it
  // is readable. `begun`: null, or an object of the run with some of the heads; readable ones are
  // taken over.
  Status Write(const storage::KvRun& run, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer, const std::function<void(LayerId)>& layer_done,
               const PriorObject* prior = nullptr, const storage::Companion* begun = nullptr) const;

 private:
  Status CancelledIn(LayerId layer) const;
  // Adds the head of `begun` whose first part is `first`, if it exists and is readable.
  Result<bool> TakeOver(const storage::PartPlace& first, const storage::Companion* begun,
                        storage::CompanionWriter* writer) const;

  const Traits traits_;
};

// Whether plans choose tokens in such a layer, so that its objects are read.
bool HasObjects(const LayerSpec& spec);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_KIND_H_
