// The catalog's record of a segment, in the terms of src/derived.
//
// Threads: stateless.
#ifndef ATTNDB_STORE_SEGMENT_FACTS_H_
#define ATTNDB_STORE_SEGMENT_FACTS_H_

#include "derived/store.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

// Leaves out wishes.
inline derived::SegmentFacts FactsOf(const SegmentRecord& record) {
  derived::SegmentFacts facts = {.id = static_cast<derived::SegmentId>(record.id),
                                 .owner = static_cast<uint64_t>(record.tenant),
                                 .num_tokens = record.num_tokens,
                                 .kv_bytes = record.kv_bytes,
                                 .damaged = !record.damage.empty(),
                                 .objects = {}};
  for (const CompanionRecord& object : record.companions) {
    facts.objects.push_back({object.kind, object.generation, object.file_bytes, object.root_hash});
  }
  return facts;
}

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SEGMENT_FACTS_H_
