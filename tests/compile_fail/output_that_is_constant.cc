// Attend writes: a view of constant data is no place for it.
// Error: cannot convert|could not convert|no viable conversion|no matching
#include "attndb/session.h"

attndb::Status AttendInto(attndb::Session& session, const attndb::TensorView& q,
                          const attndb::TensorView& constant,
                          const attndb::MutableTensorView& out) {
#ifdef ATTNDB_MISUSE
  return session.Attend(0, q, constant);
#else
  return session.Attend(0, constant.data == nullptr ? q : constant, out);
#endif
}
