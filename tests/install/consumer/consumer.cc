// A program outside of attndb's tree: stores the keys and values of three tokens and finds them
// again. Usage: consumer FOLDER
#include <attndb/attndb.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using attndb::DType;
using attndb::Status;
using attndb::TensorView;

Status Run(const std::string& path) {
  const attndb::LayerSpec layer = {
      .num_q_heads = 2, .num_kv_heads = 1, .head_dim = 8, .v_head_dim = 8};
  const attndb::ModelSpec spec =
      attndb::ModelSpec::Uniform(1, layer, DType::kFloat16, "consumer's model");
  const std::vector<float> rows(3 * 8, 1.0f);
  const std::vector<attndb::LayerKv> layers = {
      {TensorView::Contiguous(rows.data(), DType::kFloat32, 3, 1, 8),
       TensorView::Contiguous(rows.data(), DType::kFloat32, 3, 1, 8)}};
  ATTNDB_ASSIGN_OR_RETURN(const attndb::DB db, attndb::DB::Open(path));
  const std::vector<attndb::TokenId> stored = {1, 2, 3}, prompt = {1, 2, 3, 4};
  ATTNDB_RETURN_IF_ERROR(db.Import(spec, stored, layers).status());
  ATTNDB_ASSIGN_OR_RETURN(const attndb::SessionStart start, db.CreateSession(spec, prompt));
  if (start.session.num_reused() != 3) return Status::Internal("what was stored was not found");
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status =
      argc == 2 ? Run(argv[1]) : Status::InvalidArgument("usage: consumer FOLDER");
  if (status.ok()) {
    std::printf("attndb %s\n", attndb::Version());
  } else {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}
