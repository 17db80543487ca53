// Makes the stores and the KV files that upgrade_test opens, as this version writes them: once a
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

Status StoreContext(const DB& store, const HeldStore& held, const HeldContext& context) {
  const ToyModel model(held.spec);
  ATTNDB_ASSIGN_OR_RETURN(
      const DB db, context.tenant.empty() ? Result<DB>(store) : store.ForTenant(context.tenant));
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(model.spec(), context.tokens,
                                                               {.plan = held.plans.front()}));
  ATTNDB_RETURN_IF_ERROR(model.Step(&start.session, start.rest));
  const StoreOptions options = {.name = context.name, .ttl = context.ttl, .pin = context.pinned};
  ATTNDB_RETURN_IF_ERROR(db.Store(start.session, context.tokens, options).status());
  for (const std::string& plan : held.plans) {
    ATTNDB_RETURN_IF_ERROR(start.session.SetPlan(plan));
    std::vector<float> out;
    ATTNDB_RETURN_IF_ERROR(model.Probe(&start.session, context.tokens[0], &out));
    ATTNDB_RETURN_IF_ERROR(db.WaitForBackground());
  }
  return Status::Ok();
}

Status Make(const std::string& folder, const HeldStore& held) {
  DBOptions options = HeldOptions({});
  options.roar_max_degree = 8;  // A quarter of the bytes that RoarGraphs have else.
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(folder + "/store", options));
  for (const HeldContext& context : held.contexts) {
    ATTNDB_RETURN_IF_ERROR(StoreContext(db, held, context));
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB other, db.ForTenant(kOtherTenant));
  ATTNDB_RETURN_IF_ERROR(other.SetQuota(kOtherQuota));
  ATTNDB_RETURN_IF_ERROR(db.DeclareEqual(held.spec.fingerprint, kEqualName));
  return ExportKvFile(other, "draft", folder + "/draft.safetensors");
}

Status MakeAll(const std::string& folder) {
  for (const HeldStore& held : {PlainStore(), DenominatorStore(), IndexStore()}) {
    std::filesystem::create_directories(folder + held.folder);
    ATTNDB_RETURN_IF_ERROR(Make(folder + held.folder, held));
  }
  return Status::Ok();
}

}  // namespace
}  // namespace attndb::test

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const attndb::Status status = attndb::test::MakeAll(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
