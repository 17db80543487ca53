// The prefix index: for each (tenant, model, first position) a tree of blocks of 64 tokens, in
// which every context is a path from the root to its leaf. One index answers for every prefix
// length.
//
// A node's key is HMAC-SHA-256(tenant secret, model identity | first position | parent's key |
// tokens). A lookup of a full block is one probe of 32 bytes, and keys tell nothing about the text
// to anyone without the secret. The tokens are stored and compared as well: a hash alone decides
// nothing. Only a leaf may have fewer than 64 tokens.
//
// A cut (attndb/types.h) changes K and V of the tokens behind it. So a cut is a node, too, without
// tokens. It hangs below the last block that ends before the cut. The path continues below the cut
// from the end of that block, with the tokens that came before the cut. Only whole histories lead
// to a node, never the kept tokens alone.
//
// Invariants (checked by Verify):
//   num_uses = children + contexts whose leaf the node is. A node without uses is removed; a root
//              stays.
//   context  = the lowest id of the undamaged contexts that pass through the node or end in it;
//              NULL if there are none. If a node on the path of context C names another context,
//              so do all nodes above it. A repair stops there, so that dropping a context costs
//              only its own part.
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

// The inputs of the block keys of one tree.
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
  // Big-endian, so that the order of bytes is the order of tokens; or a cut (cut_bytes.h).
  std::vector<std::byte> tokens;
  int64_t num_uses = 0;
  ContextId context = ContextId::kNone;

  bool is_cut() const { return IsCut(tokens); }
  uint64_t num_tokens() const { return is_cut() ? 0 : tokens.size() / 4; }
};

// Encodes token ids so that bytes sort like tokens. REQUIRES: tokens >= 0.
std::vector<std::byte> EncodeTokens(std::span<const TokenId> tokens);
void DecodeTokens(std::span<const std::byte> bytes, std::vector<TokenId>* out);
// The number of whole tokens at the beginning that a and b have in common.
uint64_t CommonTokens(std::span<const std::byte> a, std::span<const std::byte> b);

// The key of a block, or of a cut. For a root, parent_key is zero and there are no tokens.
Sha256Digest BlockKey(const TreeIdentity& tree, const Sha256Digest& parent_key,
                      std::span<const std::byte> tokens);

class PrefixIndex {
 public:
  explicit PrefixIndex(SqliteDatabase* database) : database_(*database) {}

  Result<std::optional<PrefixNode>> FindByKey(const Sha256Digest& key) const;
  // Reads a node. Errors: also kCorruption (it does not exist).
  Result<PrefixNode> Load(NodeId id) const;

  // The child of `parent` that holds `tokens`, found by `key`.
  Result<std::optional<PrefixNode>> FindChild(const PrefixNode& parent, const Sha256Digest& key,
                                              std::span<const std::byte> tokens) const;

  Result<std::optional<PrefixNode>> FindRoot(const TreeIdentity& tree) const;
  Result<PrefixNode> EnsureRoot(const TreeIdentity& tree);

  // Returns the block on the path of `leaf` at which `num_tokens` tokens end; cuts hang below it.
  // `leaf` ends after `leaf_end`. REQUIRES: num_tokens is a multiple of 64 and at most leaf_end.
  Result<PrefixNode> Ancestor(NodeId leaf, uint64_t leaf_end, uint64_t num_tokens) const;

  // The rest of a path behind a node of num_before tokens, a multiple of 64: all later tokens, and
  // the cuts between them.
  struct Continuation {
    uint64_t num_before = 0;
    std::span<const TokenId> tokens;
    std::span<const Cut> cuts;

    bool is_empty() const { return tokens.empty() && cuts.empty(); }
  };
  struct InsertedPath {
    NodeId leaf = NodeId::kNone;
    NodeId first_new = NodeId::kNone;  // The first added node; the leaf if no node was added.
  };
  // Adds the path of `rest` below `anchor` for `context`. The leaf gains a use. Afterwards the
  // anchor and the nodes above it name `context` if the invariants say so.
  Result<InsertedPath> Insert(const TreeIdentity& tree, const PrefixNode& anchor, Continuation rest,
                              ContextId context);

  // Takes a use from `leaf`, in which `context` ended. The context's row is already gone or has
  // another leaf.
  Status RemoveEnd(NodeId leaf, ContextId context);

  // Removes `context`, which ends in `leaf`, from all nodes that name it. Its row is already marked
  // as damaged. The path stays.
  Status Withdraw(NodeId leaf, ContextId context);

  // Lets nodes name `context`, which ends in `leaf`, again where the invariants say so. Its row is
  // already marked as sound.
  Status Readmit(NodeId leaf, ContextId context);

  // Returns all tokens from the root to the end of `leaf`, and the cuts.
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
