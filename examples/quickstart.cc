// Keeps the keys and values of a prompt in a store and finds them again: the README's example.
// Run it twice: the second run has one token left for the model. Usage: quickstart FOLDER
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "attndb/attndb.h"

namespace {

using attndb::DType;
using attndb::MutableTensorView;
using attndb::Status;
using attndb::TensorView;
using attndb::TokenId;

// Stands in for an inference engine: some function of token, layer and channel instead of weights.
class Model {
 public:
  attndb::ModelSpec spec() const {
    const attndb::LayerSpec layer = {
        .num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32, .v_head_dim = 32};
    return attndb::ModelSpec::Uniform(3, layer, DType::kFloat16, "quickstart's model, version 1");
  }

  // One step: each layer appends the new tokens' keys and values, and attends.
  Status Run(std::span<const TokenId> tokens, attndb::Session* session) const {
    const auto n = static_cast<int64_t>(tokens.size());
    for (attndb::LayerId layer = 0; layer < 3; ++layer) {
      const std::vector<float> q = Rows(tokens, layer, 4), k = Rows(tokens, layer + 10, 2);
      const std::vector<float> v = Rows(tokens, layer + 20, 2);
      std::vector<float> out(q.size());
      ATTNDB_RETURN_IF_ERROR(
          session->Append(layer, TensorView::Contiguous(k.data(), DType::kFloat32, n, 2, 32),
                          TensorView::Contiguous(v.data(), DType::kFloat32, n, 2, 32)));
      ATTNDB_RETURN_IF_ERROR(
          session->Attend(layer, TensorView::Contiguous(q.data(), DType::kFloat32, n, 4, 32),
                          MutableTensorView::Contiguous(out.data(), DType::kFloat32, n, 4, 32)));
    }
    return Status::Ok();
  }

 private:
  static std::vector<float> Rows(std::span<const TokenId> tokens, uint32_t salt, size_t heads) {
    std::vector<float> rows;
    for (const TokenId token : tokens) {
      for (size_t i = 0; i < heads * 32; ++i) {
        rows.push_back(std::sin(static_cast<float>(token) * 0.37f +
                                static_cast<float>(i * (salt + 1)) * 0.11f));
      }
    }
    return rows;
  }
};

// [README]
// Runs a prompt and keeps it: the next one with the same beginning starts where this one ended.
Status Remember(const std::string& path, const Model& model, std::span<const TokenId> prompt) {
  ATTNDB_ASSIGN_OR_RETURN(const attndb::DB db, attndb::DB::Open(path));
  ATTNDB_ASSIGN_OR_RETURN(attndb::SessionStart start, db.CreateSession(model.spec(), prompt));
  ATTNDB_RETURN_IF_ERROR(model.Run(start.rest, &start.session));  // Append + Attend in each layer.
  std::printf("ran %zu of %zu tokens\n", start.rest.size(), prompt.size());
  return db.Store(start.session, prompt).status();  // Durable when it returns.
}
// [/README]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quickstart FOLDER\n");
    return 2;
  }
  std::vector<TokenId> prompt(200);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * i % 1009);
  const Status status = Remember(argv[1], Model(), prompt);
  if (!status.ok()) std::fprintf(stderr, "quickstart: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
