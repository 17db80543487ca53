// The prefix index: for each (tenant, model, first position) a tree of blocks of 64 tokens, in
// which every context is a path from the root to its leaf. One index answers for every prefix
// length.
//
// A node's key is HMAC-SHA-256(tenant secret, model identity | first position | parent's key |
// tokens): a lookup of a full block is one probe of 32 bytes, and keys tell nothing about text to
// who lacks the secret. The tokens are stored and compared as well: the hash alone decides nothing.
// Only a leaf may have fewer than 64 tokens.
//
// Where tokens have left (a cut, attndb/types.h), K and V of what follows are others. So a cut is a
// node, too, which has no tokens: it hangs below the block that ends last before the cut, and the
// path goes on below it from there, with the tokens of that block's successor that came before the
// cut. Only whole histories lead to a node, never what was kept alone.
//
// Invariants (checked by Verify):
//   num_uses = children + contexts whose leaf the node is; a node without uses is removed; a root
//              stays.
//   context  = the lowest id of the undamaged contexts that pass through the node or end in it;
//              NULL if there are none. So if a node names another context than C, which passes it,
//              all nodes above do: a repair stops there, and the drop of a context costs its own
//              part.
//
// Errors:  those of SQLite; kCorruption (rows that contradict each other, naming the node).
// Threads: as the connection. Changes happen inside the caller's transaction.
// Source:  hash chains over blocks: vLLM's prefix caching (arXiv:2309.06180, section 4.3 and later
//          code). Ours adds the secret, the compared tokens and the partial leaf.
#ifndef ATTNDB_STORE_CATALOG_PREFIX_INDEX_H_
#define ATTNDB_STORE_CATALOG_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/sha256.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/cut_bytes.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

inline constexpr uint64_t kBlockTokens = 64;

enum class NodeId : int64_t { kNone = 0 };

// What the block keys of one tree are made with.
struct TreeIdentity {
  Sha256Digest secret{};  // The tenant's secret.
  Sha256Digest model{};   // ModelSpec's canonical hash.
  int64_t first_position = 0;
};

// A row of `nodes`.
struct PrefixNode {
  NodeId id = NodeId::kNone;
  NodeId parent = NodeId::kNone;  // kNone: a root.
  Sha256Digest key{};
  // Big-endian, so that byte order is token order; or a cut (cut_bytes.h).
  std::vector<std::byte> tokens;
  int64_t num_uses = 0;
  ContextId context = ContextId::kNone;

  bool is_cut() const { return IsCut(tokens); }
  uint64_t num_tokens() const { return is_cut() ? 0 : tokens.size() / 4; }
};

// Token ids in the order of bytes. REQUIRES: tokens >= 0.
std::vector<std::byte> EncodeTokens(std::span<const TokenId> tokens);
void DecodeTokens(std::span<const std::byte> bytes, std::vector<TokenId>* out);
// Number of whole tokens that a and b have in common at their beginnings.
uint64_t CommonTokens(std::span<const std::byte> a, std::span<const std::byte> b);

// The key of a block, or of a cut. For a root, parent_key is zero and there are no tokens.
Sha256Digest BlockKey(const TreeIdentity& tree, const Sha256Digest& parent_key,
                      std::span<const std::byte> tokens);

class PrefixIndex {
 public:
  explicit PrefixIndex(SqliteDatabase* database) : database_(*database) {}

  Result<std::optional<PrefixNode>> FindByKey(const Sha256Digest& key) const;
  // Reads a node. Errors: also kCorruption (there is none).
  Result<PrefixNode> Load(NodeId id) const;

  // The child of `parent` that holds `tokens`, found by `key`.
  Result<std::optional<PrefixNode>> FindChild(const PrefixNode& parent, const Sha256Digest& key,
                                              std::span<const std::byte> tokens) const;

  Result<std::optional<PrefixNode>> FindRoot(const TreeIdentity& tree) const;
  Result<PrefixNode> EnsureRoot(const TreeIdentity& tree);

  // The block on the path of `leaf` after which `num_tokens` tokens end; cuts hang below it. `leaf`
  // ends after `leaf_end`. REQUIRES: num_tokens is a multiple of 64 and at most leaf_end.
  Result<PrefixNode> Ancestor(NodeId leaf, uint64_t leaf_end, uint64_t num_tokens) const;

  // What follows a node of num_before tokens, a multiple of 64: all tokens behind these, and the
  // cuts that lie there.
  struct Continuation {
    uint64_t num_before = 0;
    std::span<const TokenId> tokens;
    std::span<const Cut> cuts;

    bool is_empty() const { return tokens.empty() && cuts.empty(); }
  };
  struct InsertedPath {
    NodeId leaf = NodeId::kNone;
    NodeId first_new = NodeId::kNone;  // The first node that was added; the leaf, if none was.
  };
  // Adds the path of `rest` below `anchor` for `context`. The leaf gains a use. Nodes from the
  // anchor up name `context` afterwards where the invariants say so.
  Result<InsertedPath> Insert(const TreeIdentity& tree, const PrefixNode& anchor, Continuation rest,
                              ContextId context);

  // Takes a use from `leaf`, in which `context` ended: its row is gone or has another leaf already.
  Status RemoveEnd(NodeId leaf, ContextId context);

  // Nodes stop naming `context`, which ends in `leaf` and may no longer be served: its row says
  // damaged already. The path stays.
  Status Withdraw(NodeId leaf, ContextId context);

  // Nodes name `context`, which ends in `leaf` and may be served again, where the invariants say
  // so: its row says so already.
  Status Readmit(NodeId leaf, ContextId context);

  // All tokens from the root to the end of `leaf`, and its cuts.
  Result<History> HistoryOf(NodeId leaf, uint64_t num_tokens) const;

  // Whether the index has any cut.
  Result<bool> HasCuts() const;
  // The cuts that hang below a node.
  Result<std::vector<PrefixNode>> CutsBelow(NodeId node) const;

 private:
  static std::vector<std::byte> NextNode(const Continuation& rest);
  static void Skip(std::span<const std::byte> node, Continuation* rest);
  Status AddUses(NodeId id, int64_t num_uses);
  Status Adopt(PrefixNode node, ContextId context);
  Status Repair(NodeId id, ContextId leaving);

  SqliteDatabase& database_;  // Not owned; outlives this.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_PREFIX_INDEX_H_
