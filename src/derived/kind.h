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

// What an object gives for one kv head; a kind fills those fields that it is about. All are null
// for a head that has no object, as one with NaN or Inf.
struct Head {
  const index::KeyEstimates* estimates = nullptr;
  const index::KeyIndex* index = nullptr;
  const kernels::ValuePlanesView* value_planes = nullptr;
  const kernels::ValueMeansView* value_means = nullptr;
  const index::ClusterSums* sums = nullptr;
  const index::TokenRanking* ranking = nullptr;
  std::shared_ptr<const void> owner;  // Keeps alive what the pointers above point to.
};

// A head that was built just now, with the bytes of it that are written.
struct BuiltHead {
  Head head;
  // Points into head.owner; empty if the head has nothing.
  std::vector<std::span<const std::byte>> parts;
  uint64_t num_rows = 0;  // 0 if the head has nothing.
};

// An object of a run's first tokens, but not of all, from which the run's own object can grow.
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

// What a head is built from.
struct HeadSource {
  const storage::KvRun* run = nullptr;
  LayerId layer = 0;
  uint32_t kv_head = 0;
  const LayerSpec* spec = nullptr;
  const std::byte* rows = nullptr;            // Rows of K or V: Traits::made_of.
  const index::PlaneSource* keys = nullptr;   // Null if the kind is made of values.
  ThreadPool* pool = nullptr;                 // For this build alone.
  const std::atomic<bool>* cancel = nullptr;  // May be null.
  // Null if nothing is there to grow from, or the kind does not grow.
  const PriorHead* prior = nullptr;
};

// What a head is read from.
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
    std::string use;     // What sessions and plans call the kind: kinds.h.
    std::string object;  // Name of its objects; if their bytes change, they get another name.
    std::vector<std::string> parts;  // Names of the parts that each head has.
    uint64_t min_tokens = 0;         // Shorter runs have no object.
    // Names of earlier objects with other bytes, which are not read any more.
    std::vector<std::string> former;
    Rows made_of = Rows::kKeys;
    bool always = false;  // Built for each segment. False: once a plan has asked.
    // Takes much longer than a pass over the rows: built on disk only, in a lane that no fast kind
    // waits in.
    bool slow = false;
    bool grows = false;  // Its objects can grow from one of the run's first tokens.
    // Name of the object that a build leaves when it is cut short: the heads that it had made. The
    // next build takes them over. Empty: it leaves nothing.
    std::string begun;
    // The caller's own code: objects are kept in memory only, counted by the bytes that they report
    // once they are built, and built in the slow lane.
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
  // Makes a head of bytes that were read and verified. REQUIRES: the parts are not empty.
  virtual Result<Head> Parse(HeadParts parts) const = 0;

  // Bytes of the run's object on disk, at most: a head that has nothing takes nothing.
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
  // Builds all heads and adds their parts to `writer`; holds one head in memory at a time.
  // `layer_done` is called after each layer. `prior`: null, or the object from which heads grow, as
  // far as it can be read. `begun`: null, or an object of the run that has some of the heads; those
  // that can be read are taken over.
  Status Write(const storage::KvRun& run, const ModelSpec& spec, ThreadPool* pool,
               storage::CompanionWriter* writer, const std::function<void(LayerId)>& layer_done,
               const PriorObject* prior = nullptr, const storage::Companion* begun = nullptr) const;

 private:
  Status CancelledIn(LayerId layer) const;
  // Adds the head of `begun` whose first part that is, if it is there and can be read.
  Result<bool> TakeOver(const storage::PartPlace& first, const storage::Companion* begun,
                        storage::CompanionWriter* writer) const;

  const Traits traits_;
};

// Whether plans choose tokens in such a layer, so that objects of it are read.
bool HasObjects(const LayerSpec& spec);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_KIND_H_
