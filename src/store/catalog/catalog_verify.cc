// Verify: every page, every constraint, every row against every other.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "attndb/context_title.h"
#include "common/check.h"
#include "store/catalog/catalog.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/checked_vfs.h"
#include "store/catalog/model_identity.h"
#include "store/catalog/names.h"
#include "store/catalog/raw_file.h"
#include "store/catalog/schema.h"
#include "store/catalog/sound_tokens.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxFindings = 1000;  // A file full of damage needs no longer list.

// A condition that no row may meet: selects the row, its id first.
struct RowRule {
  const char* what;
  const char* sql;
  int64_t since_version = 1;  // First version of the catalog that the rule holds for.
};

constexpr RowRule kRowRules[] = {
    {"chain does not hold the context's tokens",
     "SELECT id FROM contexts c WHERE num_tokens IS NOT "
     "(SELECT sum(num_tokens_used) FROM chain WHERE context = c.id)"},
    {"chain is not numbered from 0",
     "SELECT context FROM chain GROUP BY context HAVING min(idx) <> 0 OR max(idx) <> count(*) - 1"},
    {"chain uses more tokens than a segment has",
     "SELECT c.context FROM chain c JOIN segments s ON s.id = c.segment "
     "WHERE c.num_tokens_used > s.num_tokens"},
    {"chain has a segment of another tenant",
     "SELECT x.id FROM contexts x JOIN chain c ON c.context = x.id "
     "JOIN segments s ON s.id = c.segment WHERE s.tenant <> x.tenant"},
    {"chain has a segment of other positions",
     "SELECT x.id FROM contexts x JOIN chain c ON c.context = x.id "
     "JOIN segments s ON s.id = c.segment WHERE s.first_position <> x.first_position + "
     "(SELECT total(num_tokens_used) FROM chain WHERE context = x.id AND idx < c.idx)"},
    {"chain has a segment of another layout",
     "SELECT x.id FROM contexts x JOIN chain c ON c.context = x.id "
     "JOIN segments s ON s.id = c.segment JOIN models a ON a.id = x.model "
     "JOIN models b ON b.id = s.model WHERE a.layout <> b.layout"},
    {"damaged flag disagrees with its segments",
     "SELECT id FROM contexts x WHERE damaged <> " ATTNDB_IS_HARMED("x.id")},
    {"segment has more whole tokens than tokens, or none, or is not damaged",
     "SELECT segment FROM sound_tokens t JOIN segments s ON s.id = t.segment "
     "WHERE s.damage IS NULL OR t.num_tokens NOT BETWEEN 1 AND s.num_tokens"},
    {"context has no number of its tenant's",
     "SELECT id FROM contexts c WHERE NOT EXISTS(SELECT 1 FROM context_numbers "
     "WHERE context = c.id AND tenant = c.tenant)",
     kFirstVersionWithNumbers},
    {"segment has no number of its tenant's",
     "SELECT id FROM segments s WHERE NOT EXISTS(SELECT 1 FROM segment_numbers "
     "WHERE segment = s.id AND tenant = s.tenant)",
     kFirstVersionWithNumbers},
    {"context has a number that its tenant did not give yet",
     "SELECT n.context FROM context_numbers n LEFT JOIN next_numbers x ON x.tenant = n.tenant "
     "WHERE n.number < 1 OR n.number >= ifnull(x.context, 0)",
     kFirstVersionWithNumbers},
    {"segment has a number that its tenant did not give yet",
     "SELECT n.segment FROM segment_numbers n LEFT JOIN next_numbers x ON x.tenant = n.tenant "
     "WHERE n.number < 1 OR n.number >= ifnull(x.segment, 0)",
     kFirstVersionWithNumbers},
    {"tenant has no next numbers", "SELECT id FROM tenants EXCEPT SELECT tenant FROM next_numbers",
     kFirstVersionWithNumbers},
    {"segment id was never reserved",
     "SELECT id FROM segments WHERE id <= 0 OR id >= (SELECT next_segment FROM meta)"},
    {"companion has a generation that was never reserved",
     "SELECT segment FROM companions WHERE generation <= 0 "
     "OR generation >= (SELECT next_segment FROM meta)"},
    {"segment has two companions of a kind",
     "SELECT segment FROM companions GROUP BY segment, kind HAVING count(*) > 1"},
    {"segment is to have a companion that it has",
     "SELECT segment FROM wishes NATURAL JOIN companions", kFirstVersionWithWishes},
    {"segment has no counters", "SELECT id FROM segments EXCEPT SELECT segment FROM segment_uses",
     kFirstVersionWithCounters},
    {"segment counts the contexts that have it wrongly",
     "SELECT segment FROM segment_uses u WHERE num_contexts <> "
     "(SELECT count(*) FROM chain WHERE segment = u.segment) "
     "OR tenant <> (SELECT tenant FROM segments WHERE id = u.segment)",
     kFirstVersionWithCounters},
    {"segment is settled beyond its changes",
     "SELECT segment FROM segment_uses WHERE num_settled > num_changes", kFirstVersionWithCounters},
    {"tenant has no counters", "SELECT id FROM tenants EXCEPT SELECT tenant FROM tenant_uses",
     kFirstVersionWithCounters},
    {"tenant counts its contexts wrongly",
     "SELECT tenant FROM tenant_uses u WHERE num_contexts <> "
     "(SELECT count(*) FROM contexts WHERE tenant = u.tenant)",
     kFirstVersionWithCounters},
    {"tenant counts its segments wrongly",
     "SELECT u.tenant FROM tenant_uses u LEFT JOIN segments s ON s.tenant = u.tenant "
     "GROUP BY u.tenant HAVING u.num_segments <> count(s.id) OR u.num_damaged <> count(s.damage) "
     "OR u.num_tokens <> total(s.num_tokens) OR u.file_bytes <> total(s.file_bytes)",
     kFirstVersionWithCounters},
    {"tenant counts its companions wrongly",
     "SELECT u.tenant FROM tenant_uses u LEFT JOIN segments s ON s.tenant = u.tenant "
     "LEFT JOIN companions c ON c.segment = s.id GROUP BY u.tenant "
     "HAVING u.num_companions <> count(c.kind) OR u.companion_bytes <> total(c.file_bytes)",
     kFirstVersionWithCounters},
    {"prefix node counts its uses wrongly",
     "SELECT id FROM nodes n WHERE num_uses <> (SELECT count(*) FROM nodes WHERE parent = n.id) + "
     "(SELECT count(*) FROM contexts WHERE leaf = n.id)"},
    {"prefix node without uses", "SELECT id FROM nodes WHERE num_uses = 0 AND parent IS NOT NULL"},
    {"prefix node does not name its oldest good context",
     "SELECT id FROM nodes n WHERE context IS NOT (SELECT min(i) FROM ("
     "SELECT min(id) AS i FROM contexts WHERE leaf = n.id AND damaged = 0 UNION ALL "
     "SELECT min(context) FROM nodes WHERE parent = n.id AND context IS NOT NULL))"},
    {"prefix node with children has less than 64 tokens",
     "SELECT p.id FROM nodes n JOIN nodes p ON p.id = n.parent "
     "WHERE p.parent IS NOT NULL AND length(p.tokens) <> 256 AND p.tokens < x'80'"},
    {"cut in a catalog of a version without",
     "SELECT id FROM nodes WHERE tokens >= x'80' "
     "AND (SELECT user_version FROM pragma_user_version) < 4"},
    {"context has a note that is empty or too long",
     "SELECT context FROM context_notes WHERE length(note) NOT BETWEEN 1 AND 16777216",
     kFirstVersionWithNotes},
    {"context continues one that is not older",
     "SELECT context FROM continuations "
     "WHERE continues >= context",
     kFirstVersionWithNotes},
    {"context continues one of another tenant, or one that has more tokens",
     "SELECT r.context FROM continuations r JOIN contexts c ON c.id = r.context "
     "JOIN contexts e ON e.id = r.continues "
     "WHERE c.tenant <> e.tenant OR c.num_tokens < e.num_tokens",
     kFirstVersionWithNotes},
    {"context's prefix tree is missing",
     "SELECT id FROM contexts c WHERE NOT EXISTS(SELECT 1 FROM prefix_roots r WHERE "
     "r.tenant = c.tenant AND r.model = c.model AND r.first_position = c.first_position)"},
};

class RowVerifier {
 public:
  RowVerifier(SqliteDatabase* database, std::vector<std::string>* findings)
      : database_(database), findings_(findings) {}

  Status CheckStructure();
  Status CheckRows();
  Status CheckModels();
  Status CheckSources();
  Status CheckLayouts();
  Status CheckTitles();
  Status CheckTrees();

 private:
  struct Tree {
    NodeId root;
    TenantId tenant;
    ModelId model;
    int64_t first_position;
  };
  Status CheckTree(const Tree& tree, int64_t* num_nodes);
  void CheckCut(const PrefixNode& node, uint64_t num_tokens, std::vector<Cut>* cuts);
  Status CheckLeaves(const PrefixNode& node, uint64_t num_tokens, uint64_t last_cut);
  void Found(std::string finding) {
    if (findings_->size() < kMaxFindings) findings_->push_back(std::move(finding));
  }

  SqliteDatabase* const database_;
  std::vector<std::string>* const findings_;
};

Status RowVerifier::CheckStructure() {
  for (const char* const pragma : {"PRAGMA integrity_check", "PRAGMA foreign_key_check"}) {
    Query query = database_->Select(pragma);
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      const std::string text(query.Text(0));
      if (text != "ok") Found("catalog: " + std::string(pragma) + ": " + text);
    }
  }
  return {};
}

Status RowVerifier::CheckRows() {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database_));
  for (const RowRule& rule : kRowRules) {
    if (version < rule.since_version) continue;
    Query query = database_->Select(rule.sql);
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      Found("catalog: row " + std::to_string(query.Int(0)) + ": " + rule.what);
    }
  }
  return {};
}

Status RowVerifier::CheckModels() {
  Query query = database_->Select("SELECT id, identity, layout, fingerprint, spec FROM models");
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return {};
    const std::string name = "catalog: model " + std::to_string(query.Int(0));
    const Result<ModelSpec> spec = DecodeModel(query.Blob(4));
    if (!spec.ok()) {
      Found(name + ": " + spec.status().message());
      continue;
    }
    const EncodedModel encoded = EncodeModel(*spec);
    if (!std::ranges::equal(query.Blob(1), encoded.identity) ||
        !std::ranges::equal(query.Blob(2), encoded.layout) ||
        !std::ranges::equal(query.Blob(3), std::as_bytes(std::span(spec->fingerprint)))) {
      Found(name + ": identity is not that of its spec");
    }
  }
}

Status RowVerifier::CheckSources() {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database_));
  if (version < kFirstVersionWithSources) return {};
  Query query = database_->Select("SELECT model, name, path FROM model_sources");
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return {};
    const ModelSource source = {std::string(query.Text(1)), std::string(query.Text(2))};
    const Status status = source.Validate();
    if (status.ok()) continue;
    Found("catalog: model " + std::to_string(query.Int(0)) + ": " + status.message());
  }
}

Status RowVerifier::CheckLayouts() {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database_));
  if (version < kFirstVersionWithLayouts) return {};
  Query query = database_->Select(
      "SELECT context, text, num_tokens FROM text_layouts t JOIN contexts c ON c.id = t.context");
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return {};
    const Result<TextLayout> text = TextLayout::Parse(query.Text(1));
    const Status status =
        text.ok() ? text->Validate(static_cast<uint64_t>(query.Int(2))) : text.status();
    if (status.ok()) continue;
    Found("catalog: context " + std::to_string(query.Int(0)) + ": " + status.message());
  }
}

Status RowVerifier::CheckTitles() {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database_));
  if (version < kFirstVersionWithNotes) return {};
  Query query = database_->Select("SELECT context, title FROM context_titles");
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return {};
    const Status status = CheckContextTitle(query.Text(1));
    if (status.ok()) continue;
    Found("catalog: context " + std::to_string(query.Int(0)) + ": " + status.message());
  }
}

Status RowVerifier::CheckTrees() {
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<Tree> trees,
      ReadAll<Tree>(
          database_->Select("SELECT node, tenant, model, first_position FROM prefix_roots"),
          [](const Query& row) -> Result<Tree> {
            return Tree{static_cast<NodeId>(row.Int(0)), static_cast<TenantId>(row.Int(1)),
                        static_cast<ModelId>(row.Int(2)), row.Int(3)};
          }));
  int64_t num_nodes = 0;
  for (const Tree& tree : trees) ATTNDB_RETURN_IF_ERROR(CheckTree(tree, &num_nodes));
  Query query = database_->Select("SELECT count(*) FROM nodes");
  ATTNDB_RETURN_IF_ERROR(query.Step().status());
  if (query.Int(0) != num_nodes) {
    Found("catalog: " + std::to_string(query.Int(0)) + " prefix nodes, but " +
          std::to_string(num_nodes) + " in trees");
  }
  return {};
}

// Checks that every key matches its tokens, and that every context ends at its length.
Status RowVerifier::CheckTree(const Tree& tree, int64_t* num_nodes) {
  struct Open {
    NodeId id;
    Sha256Digest parent_key;
    uint64_t num_tokens_before;
    std::vector<Cut> cuts;  // The cuts on the path to the node.
  };
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow tenant, LoadTenantRow(database_, tree.tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ModelRow model, LoadModelRow(database_, tree.model));
  const TreeIdentity identity{tenant.secret, model.identity, tree.first_position};
  const PrefixIndex index(database_);
  std::vector<Open> open = {{tree.root, Sha256Digest{}, 0, {}}};
  while (!open.empty()) {
    Open next = std::move(open.back());
    open.pop_back();
    ++*num_nodes;
    ATTNDB_ASSIGN_OR_RETURN(const PrefixNode node, index.Load(next.id));
    if (node.key != BlockKey(identity, next.parent_key, node.tokens)) {
      Found("catalog: prefix node " + std::to_string(static_cast<int64_t>(node.id)) +
            ": key is not that of its tokens");
    }
    const uint64_t num_tokens = next.num_tokens_before + node.num_tokens();
    if (node.is_cut()) CheckCut(node, num_tokens, &next.cuts);
    ATTNDB_RETURN_IF_ERROR(
        CheckLeaves(node, num_tokens, next.cuts.empty() ? 0 : next.cuts.back().at));
    Query children = database_->Select("SELECT id FROM nodes WHERE parent = ?", node.id);
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const bool found, children.Step());
      if (!found) break;
      open.push_back({static_cast<NodeId>(children.Int(0)), node.key, num_tokens, next.cuts});
    }
  }
  return {};
}

// A cut lies in the block behind its parent, later than the cuts above it, and drops tokens that
// are there.
void RowVerifier::CheckCut(const PrefixNode& node, uint64_t num_tokens, std::vector<Cut>* cuts) {
  const Result<Cut> cut = DecodeCut(node.tokens);
  if (!cut.ok()) return;  // Load has refused it.
  cuts->push_back(*cut);
  const Status status = CheckCuts(*cuts, UINT64_MAX);
  const std::string name = "catalog: prefix node " + std::to_string(static_cast<int64_t>(node.id));
  if (!status.ok()) Found(name + ": " + status.message());
  if (cut->at < num_tokens || cut->at >= num_tokens + kBlockTokens) {
    Found(name + ": a cut at " + std::to_string(cut->at) + " tokens hangs where " +
          std::to_string(num_tokens) + " end");
  }
}

Status RowVerifier::CheckLeaves(const PrefixNode& node, uint64_t num_tokens, uint64_t last_cut) {
  Query query = database_->Select("SELECT id, num_tokens FROM contexts WHERE leaf = ?", node.id);
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return {};
    if (query.Int(1) < static_cast<int64_t>(last_cut)) {
      Found("catalog: context " + std::to_string(query.Int(0)) + ": " +
            std::to_string(query.Int(1)) + " tokens, but a cut at " + std::to_string(last_cut));
    }
    if (query.Int(1) == static_cast<int64_t>(num_tokens)) continue;
    Found("catalog: context " + std::to_string(query.Int(0)) + ": " + std::to_string(query.Int(1)) +
          " tokens, but its path has " + std::to_string(num_tokens));
  }
}

// Damage of one page, looked at again if another process may be writing it just now.
std::string ReadPageDamage(const RawFile& file, uint32_t page_number) {
  constexpr int kTries = 3;
  std::string damage;
  for (int i = 0; i < kTries; ++i) {
    std::array<std::byte, kPageBytes> page;
    const Status status = file.Read((uint64_t{page_number} - 1) * kPageBytes, page);
    damage = status.ok() ? PageDamage(page_number, page) : "can't be read: " + status.message();
    if (damage.empty()) return damage;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return damage;
}

Result<uint32_t> NumPages(const RawFile& file) {
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_bytes, file.NumBytes());
  return static_cast<uint32_t>((num_bytes + kPageBytes - 1) / kPageBytes);
}

// A connection of its own: the catalog's has pages in its cache that may have been damaged since,
// and must not wait for it.
Status CheckRowsBeside(SqliteDatabase* database, const std::function<Status()>& go_on,
                       std::vector<std::string>* findings) {
  {
    ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database));
    if (version < kFirstVersionWithSoundTokens) {
      ATTNDB_RETURN_IF_ERROR(ViewAsSoundTokens(database));
    }
  }
  RowVerifier verifier(database, findings);
  using Check = Status (RowVerifier::*)();
  for (const Check check :
       {&RowVerifier::CheckStructure, &RowVerifier::CheckRows, &RowVerifier::CheckModels,
        &RowVerifier::CheckSources, &RowVerifier::CheckLayouts, &RowVerifier::CheckTitles,
        &RowVerifier::CheckTrees}) {
    if (go_on) ATTNDB_RETURN_IF_ERROR(go_on());
    // A snapshot for each: a commit meanwhile can't empty the log, and waits a moment for that.
    ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction,
                            Transaction::Begin(database, Transaction::Kind::kRead));
    ATTNDB_RETURN_IF_ERROR((verifier.*check)());
  }
  return {};
}

// Whether the file alone holds all commits, so that each of its pages counts. Pages that are in the
// log may be half-written in the file.
bool FileHasAll(const CatalogCore& core) ATTNDB_REQUIRES(core.mutex()) {
  if (!core.options().read_only) (void)core.database()->Checkpoint();
  struct stat wal {};
  return stat((core.options().path + "-wal").c_str(), &wal) != 0 || wal.st_size == 0;
}

// Checks every page of the file, also pages that SQLite does not use at present. Reads without the
// lock. A page that looks damaged is read again under the lock, when no thread writes.
Status CheckPages(const CatalogCore& core, const std::function<Status()>& go_on,
                  std::vector<std::string>* findings) {
  constexpr uint32_t kPagesBetween = 1024;
  const std::string& path = core.options().path;
  {
    MutexLock lock(core.mutex());
    if (!FileHasAll(core)) return {};
  }
  ATTNDB_ASSIGN_OR_RETURN(const RawFile file, RawFile::Open(path));
  ATTNDB_ASSIGN_OR_RETURN(const uint32_t num_pages, NumPages(file));
  for (uint32_t page = 1; page <= num_pages && findings->size() < kMaxFindings; ++page) {
    if (go_on && page % kPagesBetween == 1) ATTNDB_RETURN_IF_ERROR(go_on());
    if (ReadPageDamage(file, page).empty()) continue;
    MutexLock lock(core.mutex());
    if (!FileHasAll(core)) continue;
    ATTNDB_ASSIGN_OR_RETURN(const uint32_t num_pages_now, NumPages(file));
    if (page > num_pages_now) break;
    const std::string damage = ReadPageDamage(file, page);
    if (damage.empty()) continue;
    findings->push_back(path + ": page " + std::to_string(page) + ": " + damage);
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> Catalog::Verify(const std::function<Status()>& go_on) const {
  std::vector<std::string> findings;
  ATTNDB_RETURN_IF_ERROR(CheckPages(core_, go_on, &findings));
  auto mode = SqliteDatabase::Mode::kReadOnly;
  {
    MutexLock lock(core_.mutex());
    if (core_.is_immutable()) mode = SqliteDatabase::Mode::kImmutable;
  }
  ATTNDB_ASSIGN_OR_RETURN(const auto database, SqliteDatabase::Open(core_.options().path, mode));
  const Status status = CheckRowsBeside(database.get(), go_on, &findings);
  if (status.code() == StatusCode::kCorruption) {
    findings.push_back(status.message());
  } else if (!status.ok()) {
    return status;
  }
  return findings;
}

}  // namespace attndb::store
