// The index of one kv head of a run, made by a caller's own type (attndb/custom_index.h). Asks the
// type for its selection, checks the answer, and scores the selected rows exactly.
//
// Errors:  kInvalidArgument if the type throws, fails or selects forbidden rows, naming the type,
//          layer and kv head, what was expected and found; kResourceExhausted if the type or its
//          answer gets no memory; else those of reading keys.
// Memory:  unlike other indexes, a search allocates: selections are the type's own vectors.
// Threads: as key_index.h.
#ifndef ATTNDB_INDEX_CUSTOM_CUSTOM_KEYS_H_
#define ATTNDB_INDEX_CUSTOM_CUSTOM_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "attndb/custom_index.h"
#include "attndb/result.h"
#include "index/key_index.h"

namespace attndb::index {

// Runs a function of the caller. Its error or exception becomes kInvalidArgument or
// kResourceExhausted, whatever its own code, because some of attndb's codes mean damaged files.
// `what` names the type and the place.
Status CallCustom(const std::string& what, const std::function<Status()>& call);

// "custom index 'pages', layer 3, kv head 1"
std::string DescribeCustom(const std::string& name, LayerId layer, uint32_t kv_head);

class CustomKeys final : public KeyIndex {
 public:
  struct Parts {
    std::shared_ptr<const CustomIndexType> type;
    CustomObjectPtr object;  // Not null.
    LayerId layer = 0;
    uint32_t kv_head = 0;
    uint64_t num_rows = 0;
    uint32_t head_dim = 0;
    uint32_t v_head_dim = 0;
    uint64_t memory_bytes = 0;  // Reported by the object.
  };
  explicit CustomKeys(Parts parts) : parts_(std::move(parts)) {}

  // Calls the type's Build, or its Extend if `is_extension`, and checks the object.
  static Result<std::shared_ptr<const CustomKeys>> Build(
      const std::shared_ptr<const CustomIndexType>& type, const CustomRows& rows,
      bool is_extension);

  size_t num_keys() const override { return parts_.num_rows; }
  uint64_t memory_bytes() const override { return parts_.memory_bytes; }
  // Scratch for the estimates of unselected rows, which FoundKeys::rest points to.
  size_t ScratchBytes(const IndexCall& call) const override;
  // REQUIRES: the indexes of all runs are of one type, layer and kv head.
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

  const Parts& parts() const { return parts_; }

 private:
  const Parts parts_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CUSTOM_CUSTOM_KEYS_H_
