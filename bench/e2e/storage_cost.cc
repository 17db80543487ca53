#include "bench/e2e/storage_cost.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "attndb/db.h"

namespace attndb::bench {
namespace {

uint64_t ResidentBytes() {
  ::malloc_trim(0);  // What earlier work freed would hide what this one takes.
  uint64_t num_pages = 0;
  uint64_t num_resident = 0;
  std::ifstream("/proc/self/statm") >> num_pages >> num_resident;
  return num_resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t Growth(uint64_t before, uint64_t after) { return after > before ? after - before : 0; }

// Bytes of the query sample of the store's longest context.
uint64_t QuerySampleBytes(const DB& db) {
  const Result<std::vector<ContextInfo>> all = db.List();
  if (!all.ok()) return 0;
  uint64_t most = 0;
  for (const ContextInfo& info : *all) most = std::max(most, info.query_sample_bytes);
  return most;
}

}  // namespace

Result<StorageCost> MeasureStorageCost(llama::LlamaEngine* engine, const std::string& path,
                                       std::span<const TokenId> tokens, size_t document) {
  const ModelSpec& spec = engine->spec();
  StorageCost cost;
  cost.document_kv_bytes = document * spec.KvBytesPerToken();
  {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(path));
    {  // The engine's own buffers are not a session's.
      ATTNDB_ASSIGN_OR_RETURN(SessionStart warm, db.CreateSession(spec, tokens.first(512)));
      ATTNDB_RETURN_IF_ERROR(engine->Prefill(warm.session, warm.rest));
    }
    const uint64_t before = ResidentBytes();
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec, tokens.first(document)));
    ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, start.rest));
    cost.fresh_resident_bytes = Growth(before, ResidentBytes());
    ATTNDB_RETURN_IF_ERROR(db.Store(start.session, tokens.first(document)).status());
  }
  const uint64_t before = ResidentBytes();
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(path));
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec, tokens));
  const auto rest = std::span(start.rest).first(start.rest.size() - 1);
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, rest.first(1)));
  cost.stored_resident_bytes = Growth(before, ResidentBytes());
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, rest.subspan(1)));
  ATTNDB_ASSIGN_OR_RETURN(const DBStats then, db.Stats());
  const uint64_t sample_before = QuerySampleBytes(db);
  const auto stored = tokens.first(tokens.size() - 1);
  ATTNDB_RETURN_IF_ERROR(db.Store(start.session, stored).status());
  ATTNDB_ASSIGN_OR_RETURN(const DBStats now, db.Stats());
  cost.num_new = rest.size();
  cost.new_kv_bytes = rest.size() * spec.KvBytesPerToken();
  cost.written_bytes = now.bytes_written - then.bytes_written;
  cost.merged_bytes = now.bytes_merged - then.bytes_merged;
  cost.query_sample_bytes = Growth(sample_before, QuerySampleBytes(db));
  return cost;
}

}  // namespace attndb::bench
