// A call whose Status nobody looks at may have failed.
// Error: ignoring return
#include "attndb/db.h"

attndb::Status PinBook(const attndb::DB& db) {
#ifdef ATTNDB_MISUSE
  db.Pin("book");
#endif
  return db.Pin("book");
}
