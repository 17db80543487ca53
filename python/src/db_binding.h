// attndb._core.DB: a DB that can be closed.
//
// Threads: any.
#ifndef ATTNDB_PYTHON_SRC_DB_BINDING_H_
#define ATTNDB_PYTHON_SRC_DB_BINDING_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "attndb/db.h"
#include "attndb/options.h"

namespace attndb::python {

// Runs `call` without the interpreter lock.
template <typename Call>
auto Unlocked(Call&& call) {
  const nanobind::gil_scoped_release unlocked;
  return std::forward<Call>(call)();
}

class PyDb {
 public:
  explicit PyDb(DB db);

  // Returns a handle for one call. The PyDb may be closed meanwhile.
  // Throws StatusError kFailedPrecondition: the PyDb is closed.
  std::shared_ptr<const DB> Get() const;
  bool closed() const { return db_ == nullptr; }
  void Close() { db_.reset(); }

 private:
  // Guarded by the interpreter lock. The last holder closes the store without that lock, because
  // background builds may wait for the lock.
  std::shared_ptr<const DB> db_;
};

// `ttl` in seconds; none = for ever. Throws if `text_layout` is no TextLayout; "" = unknown.
StoreOptions ToStoreOptions(const std::string& name, bool replace, bool drop_base,
                            std::optional<int64_t> ttl, bool pin,
                            const std::string& text_layout = "", const std::string& title = "",
                            std::string_view note = {});

// REQUIRES: BindSession was called.
void BindDb(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_DB_BINDING_H_
