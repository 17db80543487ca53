// An object of one kv head, together with the bytes that it points into if it was read from a file.
//
// Threads: constant once made.
#ifndef ATTNDB_DERIVED_OWNED_HEAD_H_
#define ATTNDB_DERIVED_OWNED_HEAD_H_

#include <memory>
#include <utility>
#include <vector>

#include "storage/vfs/object_reader.h"

namespace attndb::derived {

template <typename T>
struct OwnedHead {
  T object;
  std::vector<storage::ObjectRange> parts;
};

template <typename T>
std::shared_ptr<const OwnedHead<T>> Own(T object, std::vector<storage::ObjectRange> parts = {}) {
  return std::make_shared<const OwnedHead<T>>(OwnedHead<T>{std::move(object), std::move(parts)});
}

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_OWNED_HEAD_H_
