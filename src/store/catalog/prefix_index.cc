#include "store/catalog/prefix_index.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "common/coding.h"

namespace attndb::store {
namespace {

constexpr size_t kTokenBytes = 4;
constexpr size_t kMaxNodeBytes = 1 + 8 + 16 * kMaxCutRanges;
static_assert(kMaxNodeBytes >= kBlockTokens * kTokenBytes);

#define ATTNDB_NODE_COLUMNS "id, parent, key, tokens, num_uses, context"

std::string NodeName(NodeId id) {
  return "catalog: prefix node " + std::to_string(static_cast<int64_t>(id));
}

Result<PrefixNode> ReadNode(const Query& row) {
  PrefixNode node;
  node.id = static_cast<NodeId>(row.Int(0));
  node.parent = static_cast<NodeId>(row.Int(1));
  const std::span<const std::byte> key = row.Blob(2);
  const std::span<const std::byte> tokens = row.Blob(3);
  node.num_uses = row.Int(4);
  node.context = static_cast<ContextId>(row.Int(5));
  const bool is_root = node.parent == NodeId::kNone;
  const bool is_cut = !is_root && IsCut(tokens);
  if (is_cut) {
    const Status status = DecodeCut(tokens).status();
    if (!status.ok()) return status.WithContext(NodeName(node.id));
  }
  const bool is_block =
      tokens.size() % kTokenBytes == 0 && tokens.size() <= kBlockTokens * kTokenBytes;
  if (key.size() != node.key.size() || tokens.empty() != is_root || !(is_cut || is_block)) {
    return Status::Corruption(NodeName(node.id) + ": key of " + std::to_string(key.size()) +
                              " bytes and tokens of " + std::to_string(tokens.size()));
  }
  std::ranges::copy(key, node.key.begin());
  node.tokens.assign(tokens.begin(), tokens.end());
  return node;
}

}  // namespace

std::vector<std::byte> EncodeTokens(std::span<const TokenId> tokens) {
  std::vector<std::byte> bytes;
  bytes.reserve(tokens.size() * kTokenBytes);
  for (const TokenId token : tokens) {
    const auto value = static_cast<uint32_t>(token);
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(value >> shift));
  }
  return bytes;
}

void DecodeTokens(std::span<const std::byte> bytes, std::vector<TokenId>* out) {
  for (size_t i = 0; i + kTokenBytes <= bytes.size(); i += kTokenBytes) {
    uint32_t value = 0;
    for (size_t j = 0; j < kTokenBytes; ++j) {
      value = value << 8 | std::to_integer<uint32_t>(bytes[i + j]);
    }
    out->push_back(static_cast<TokenId>(value));
  }
}

uint64_t CommonTokens(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  return static_cast<uint64_t>(in_a - a.begin()) / kTokenBytes;
}

Sha256Digest BlockKey(const TreeIdentity& tree, const Sha256Digest& parent_key,
                      std::span<const std::byte> tokens) {
  std::array<std::byte, 32 + 8 + 32 + kMaxNodeBytes> message;
  ATTNDB_CHECK(tokens.size() <= kMaxNodeBytes);
  auto out = std::ranges::copy(tree.model, message.begin()).out;
  out = std::ranges::copy(std::as_bytes(std::span(&tree.first_position, 1)), out).out;
  out = std::ranges::copy(parent_key, out).out;
  out = std::ranges::copy(tokens, out).out;
  return HmacSha256(tree.secret, std::span(message.begin(), out));
}

Result<std::optional<PrefixNode>> PrefixIndex::FindByKey(const Sha256Digest& key) const {
  Query query = database_.Select("SELECT " ATTNDB_NODE_COLUMNS " FROM nodes WHERE key = ?",
                                 std::span<const std::byte>(key));
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return std::optional<PrefixNode>();
  ATTNDB_ASSIGN_OR_RETURN(PrefixNode node, ReadNode(query));
  return std::optional(std::move(node));
}

Result<PrefixNode> PrefixIndex::Load(NodeId id) const {
  Query query = database_.Select("SELECT " ATTNDB_NODE_COLUMNS " FROM nodes WHERE id = ?", id);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return Status::Corruption(NodeName(id) + ": missing, but referred to");
  return ReadNode(query);
}

Result<std::optional<PrefixNode>> PrefixIndex::FindChild(const PrefixNode& parent,
                                                         const Sha256Digest& key,
                                                         std::span<const std::byte> tokens) const {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixNode> node, FindByKey(key));
  if (node.has_value() &&
      (node->parent != parent.id || !std::ranges::equal(node->tokens, tokens))) {
    return Status::Corruption(NodeName(node->id) + ": key does not belong to parent and tokens");
  }
  return node;
}

Result<std::optional<PrefixNode>> PrefixIndex::FindRoot(const TreeIdentity& tree) const {
  return FindByKey(BlockKey(tree, Sha256Digest{}, {}));
}

Result<PrefixNode> PrefixIndex::EnsureRoot(const TreeIdentity& tree) {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixNode> root, FindRoot(tree));
  if (root.has_value()) return *std::move(root);
  PrefixNode node;
  node.key = BlockKey(tree, Sha256Digest{}, {});
  ATTNDB_RETURN_IF_ERROR(
      database_.Run("INSERT INTO nodes(parent, key, tokens, num_uses) VALUES(NULL, ?, x'', 0)",
                    std::span<const std::byte>(node.key)));
  node.id = static_cast<NodeId>(database_.last_insert_id());
  return node;
}

Result<PrefixNode> PrefixIndex::Ancestor(NodeId leaf, uint64_t leaf_end,
                                         uint64_t num_tokens) const {
  ATTNDB_CHECK(num_tokens % kBlockTokens == 0 && num_tokens <= leaf_end);
  ATTNDB_ASSIGN_OR_RETURN(PrefixNode node, Load(leaf));
  while (leaf_end > num_tokens || node.is_cut()) {
    if (node.parent == NodeId::kNone) {
      return Status::Corruption(NodeName(node.id) + ": a root, expected " +
                                std::to_string(leaf_end) + " tokens up to it");
    }
    leaf_end -= std::min(leaf_end, node.num_tokens());
    ATTNDB_ASSIGN_OR_RETURN(node, Load(node.parent));
  }
  return node;
}

Status PrefixIndex::AddUses(NodeId id, int64_t num_uses) {
  return database_.Run("UPDATE nodes SET num_uses = num_uses + ? WHERE id = ?", num_uses, id);
}

Status PrefixIndex::Adopt(PrefixNode node, ContextId context) {
  while (node.context == ContextId::kNone || node.context > context) {
    ATTNDB_RETURN_IF_ERROR(
        database_.Run("UPDATE nodes SET context = ? WHERE id = ?", context, node.id));
    if (node.parent == NodeId::kNone) return {};
    ATTNDB_ASSIGN_OR_RETURN(node, Load(node.parent));
  }
  return {};
}

// The bytes of the next node of a path: a cut that lies before the next block ends, or that block.
std::vector<std::byte> PrefixIndex::NextNode(const Continuation& rest) {
  const auto& [num_before, tokens, cuts] = rest;
  if (!cuts.empty() && cuts.front().at < num_before + kBlockTokens) return EncodeCut(cuts.front());
  return EncodeTokens(tokens.first(std::min<size_t>(tokens.size(), kBlockTokens)));
}

void PrefixIndex::Skip(std::span<const std::byte> node, Continuation* rest) {
  if (IsCut(node)) {
    rest->cuts = rest->cuts.subspan(1);
    return;
  }
  rest->tokens = rest->tokens.subspan(node.size() / kTokenBytes);
  rest->num_before += kBlockTokens;
}

Result<PrefixIndex::InsertedPath> PrefixIndex::Insert(const TreeIdentity& tree,
                                                      const PrefixNode& anchor, Continuation rest,
                                                      ContextId context) {
  PrefixNode last = anchor;  // The deepest node that is there already.
  while (!rest.is_empty()) {
    const std::vector<std::byte> next = NextNode(rest);
    ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixNode> child,
                            FindChild(last, BlockKey(tree, last.key, next), next));
    if (!child.has_value()) break;
    last = *std::move(child);
    Skip(next, &rest);
  }
  ATTNDB_RETURN_IF_ERROR(AddUses(last.id, 1));
  ATTNDB_RETURN_IF_ERROR(Adopt(last, context));
  InsertedPath path = {.leaf = last.id};
  Sha256Digest key = last.key;
  while (!rest.is_empty()) {
    const std::vector<std::byte> next = NextNode(rest);
    key = BlockKey(tree, key, next);
    // One use: the next node, or the context's end.
    ATTNDB_RETURN_IF_ERROR(database_.Run(
        "INSERT INTO nodes(parent, key, tokens, num_uses, context) VALUES(?, ?, ?, 1, ?)",
        path.leaf, std::span<const std::byte>(key), std::span<const std::byte>(next), context));
    path.leaf = static_cast<NodeId>(database_.last_insert_id());
    if (path.first_new == NodeId::kNone) path.first_new = path.leaf;
    Skip(next, &rest);
  }
  if (path.first_new == NodeId::kNone) path.first_new = path.leaf;
  return path;
}

Result<bool> PrefixIndex::HasCuts() const {
  Query query = database_.Select(
      "SELECT 1 FROM nodes INDEXED BY nodes_of_cuts WHERE tokens >= x'80' LIMIT 1");
  return query.Step();
}

Result<std::vector<PrefixNode>> PrefixIndex::CutsBelow(NodeId node) const {
  Query query = database_.Select("SELECT " ATTNDB_NODE_COLUMNS
                                 " FROM nodes INDEXED BY nodes_of_cuts "
                                 "WHERE parent = ? AND tokens >= x'80'",
                                 node);
  std::vector<PrefixNode> cuts;
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return cuts;
    ATTNDB_ASSIGN_OR_RETURN(PrefixNode cut, ReadNode(query));
    cuts.push_back(std::move(cut));
  }
}

Status PrefixIndex::RemoveEnd(NodeId leaf, ContextId context) {
  ATTNDB_RETURN_IF_ERROR(AddUses(leaf, -1));
  return Repair(leaf, context);
}

Status PrefixIndex::Withdraw(NodeId leaf, ContextId context) { return Repair(leaf, context); }

Status PrefixIndex::Readmit(NodeId leaf, ContextId context) {
  ATTNDB_ASSIGN_OR_RETURN(PrefixNode node, Load(leaf));
  return Adopt(std::move(node), context);
}

// Walks up from `id`. Removes nodes without uses, and lets nodes that name `leaving` name the next
// context, as long as that changes anything.
Status PrefixIndex::Repair(NodeId id, ContextId leaving) {
  while (id != NodeId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(const PrefixNode node, Load(id));
    id = node.parent;
    if (node.num_uses <= 0 && node.parent != NodeId::kNone) {
      ATTNDB_RETURN_IF_ERROR(database_.Run("DELETE FROM nodes WHERE id = ?", node.id));
      ATTNDB_RETURN_IF_ERROR(AddUses(node.parent, -1));
      continue;
    }
    if (node.context != leaving) return {};
    Query query = database_.Select(
        "SELECT min(id) FROM (SELECT min(id) AS id FROM contexts WHERE leaf = ?1 AND damaged = 0 "
        "UNION ALL SELECT min(context) FROM nodes WHERE parent = ?1 AND context IS NOT NULL)",
        node.id);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    const std::optional<int64_t> next = found ? query.OptionalInt(0) : std::nullopt;
    if (next == static_cast<int64_t>(leaving)) return {};
    ATTNDB_RETURN_IF_ERROR(
        database_.Run("UPDATE nodes SET context = ? WHERE id = ?", next, node.id));
  }
  return {};
}

Result<History> PrefixIndex::HistoryOf(NodeId leaf, uint64_t num_tokens) const {
  std::vector<std::vector<std::byte>> path;  // Leaf first.
  uint64_t num_found = 0;
  for (NodeId id = leaf; id != NodeId::kNone && num_found <= num_tokens;) {
    ATTNDB_ASSIGN_OR_RETURN(PrefixNode node, Load(id));
    id = node.parent;
    num_found += node.num_tokens();
    path.push_back(std::move(node.tokens));
  }
  if (num_found != num_tokens) {
    return Status::Corruption(NodeName(leaf) + ": " + std::to_string(num_found) +
                              " tokens up to it, expected " + std::to_string(num_tokens));
  }
  History history;
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    if (!IsCut(*node)) {
      DecodeTokens(*node, &history.tokens);
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(Cut cut, DecodeCut(*node));
    history.cuts.push_back(std::move(cut));
  }
  const Status status = CheckCuts(history.cuts, num_tokens);
  if (!status.ok()) return Status::Corruption(NodeName(leaf) + ": " + status.message());
  return history;
}

}  // namespace attndb::store
