// Makes the store and the KV file that upgrade_test opens, as this version writes them: once a
// version, to be committed below tests/upgrade/data. Usage: upgrade_make_store FOLDER
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/kv_file.h"
#include "testing/toy_model.h"
#include "tests/upgrade/held_contexts.h"

namespace attndb::test {
namespace {

// Plans that read key planes and value planes, so that both get written.
constexpr const char* kPlan = "topk(k=8,sink=4,window=8,bits=4,remainder=planes:4)";

Status StoreContext(const DB& store, const HeldContext& context) {
  const ToyModel model(HeldSpec());
  ATTNDB_ASSIGN_OR_RETURN(
      const DB db, context.tenant.empty() ? Result<DB>(store) : store.ForTenant(context.tenant));
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(model.spec(), context.tokens, {.plan = kPlan}));
  ATTNDB_RETURN_IF_ERROR(model.Step(&start.session, start.rest));
  const StoreOptions options = {.name = context.name, .ttl = context.ttl, .pin = context.pinned};
  ATTNDB_RETURN_IF_ERROR(db.Store(start.session, context.tokens, options).status());
  std::vector<float> out;
  ATTNDB_RETURN_IF_ERROR(model.Probe(&start.session, context.tokens[0], &out));
  return db.WaitForBackground();
}

Status Make(const std::string& folder) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(folder + "/store", HeldOptions({})));
  for (const HeldContext& context : HeldContexts()) {
    ATTNDB_RETURN_IF_ERROR(StoreContext(db, context));
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB other, db.ForTenant(kOtherTenant));
  ATTNDB_RETURN_IF_ERROR(other.SetQuota(kOtherQuota));
  ATTNDB_RETURN_IF_ERROR(db.DeclareEqual(HeldSpec().fingerprint, kEqualName));
  return ExportKvFile(other, "draft", folder + "/draft.safetensors");
}

}  // namespace
}  // namespace attndb::test

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::filesystem::create_directories(argv[1]);
  const attndb::Status status = attndb::test::Make(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
