// The open store behind a DB, for parts of the public interface that are not members of DB.
//
// Threads: stateless.
#ifndef ATTNDB_API_DB_ACCESS_H_
#define ATTNDB_API_DB_ACCESS_H_

#include <memory>
#include <utility>

#include "attndb/db.h"

namespace attndb::internal {

struct DbAccess {
  // Returns a handle for the tenant "default", like DB::Open.
  static DB Wrap(std::shared_ptr<Database> database) { return {std::move(database), "default"}; }
  // Valid as long as the handle lives.
  static Database* database(const DB& db) { return db.database_.get(); }
};

}  // namespace attndb::internal

#endif  // ATTNDB_API_DB_ACCESS_H_
