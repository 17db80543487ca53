#include "store/catalog/catalog_test_util.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "common/hex.h"
#include "store/catalog/checked_vfs.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

std::vector<TokenId> Range(TokenId first, size_t num_tokens) {
  std::vector<TokenId> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

void ChangeRows(const std::string& path, const std::string& sql) {
  const auto database = SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadWrite).value();
  const Status status = database->Execute(sql.c_str());
  EXPECT_TRUE(status.ok()) << status;
}

void DamageRootPageOf(const std::string& path, const std::string& name) {
  uint64_t page = 0;
  {
    const auto database = SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly).value();
    Query query = database->Select("SELECT rootpage FROM sqlite_schema WHERE name = ?", name);
    EXPECT_TRUE(query.Step().value());
    page = static_cast<uint64_t>(query.Int(0));
  }
  std::string contents = ReadFile(path);
  contents.at((page - 1) * kPageBytes + 500) ^= 1;
  WriteFile(path, contents);
}

ModelSpec TestSpec(const std::string& fingerprint) {
  LayerSpec layer;
  layer.num_q_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_dim = 16;
  layer.v_head_dim = 16;
  layer.rope = {.layout = RopeLayout::kHalf, .rope_dims = 0, .base = 10000.0, .scaling = ""};
  return ModelSpec::Uniform(2, layer, DType::kFloat16, fingerprint);
}

CatalogHarness::CatalogHarness(const std::string* parent)
    : dir_(parent == nullptr ? test::TempDir::InMemory() : test::TempDir::In(*parent)),
      spec_(TestSpec()) {
  Reopen();
  tenant_ = catalog_->owners()->EnsureTenant("default").value().id;
  model_ = catalog_->owners()->EnsureModel(spec_).value();
}

Result<std::unique_ptr<Catalog>> CatalogHarness::Open(bool read_only) {
  CatalogOptions options;
  options.path = path();
  options.read_only = read_only;
  options.create_if_missing = true;
  options.clock = [this] { return now_us; };
  options.check_place = [this] { return check_place ? check_place() : Status(); };
  return Catalog::Open(options);
}

void CatalogHarness::Reopen() {
  catalog_.reset();
  catalog_ = Open().value();
}

void CatalogHarness::set_spec(const ModelSpec& spec) {
  spec_ = spec;
  model_ = catalog_->owners()->EnsureModel(spec_).value();
}

Result<PublishOutcome> CatalogHarness::Publish(const std::vector<TokenId>& tokens,
                                               const Published& options) {
  PublishRequest request;
  request.tenant = tenant_;
  request.model = model_;
  request.first_position = options.first_position;
  request.tokens = tokens;
  request.kv_bytes = tokens.size() * spec_.KvBytesPerToken();
  request.name = options.name;
  request.replace = options.replace;
  request.base = options.base;
  request.num_shared = options.num_shared;
  request.drop_base = options.drop_base;
  request.ttl = options.ttl;
  request.pin = options.pin;
  request.cuts = options.cuts;
  request.evict = options.evict;
  request.source = options.source;
  request.text_layout = options.text_layout;
  request.title = options.title;
  request.note = options.note;
  uint64_t num_chained = 0;
  if (options.base != ContextId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                            catalog_->contexts()->Chain(options.base));
    for (ChainLink link : chain) {
      link.num_tokens_used = std::min(link.num_tokens_used, options.num_shared - num_chained);
      if (link.num_tokens_used == 0) break;
      num_chained += link.num_tokens_used;
      request.chain.push_back(link);
    }
  }
  if (num_chained < tokens.size()) {
    SegmentRecord segment;
    ATTNDB_ASSIGN_OR_RETURN(segment.id, catalog_->segments()->ReserveId());
    segment.first_position = options.first_position + static_cast<int64_t>(num_chained);
    segment.num_tokens = tokens.size() - num_chained;
    segment.kv_bytes = segment.num_tokens * spec_.KvBytesPerToken();
    segment.query_bytes = 100;
    segment.file_bytes = segment.kv_bytes + 4096;
    segment.root_hash.fill(static_cast<std::byte>(segment.id));
    segment.non_finite = {std::byte{1}, std::byte{2}};
    request.new_segments.push_back(segment);
    request.chain.push_back({segment.id, segment.num_tokens});
  }
  return catalog_->contexts()->Publish(request);
}

ContextId CatalogHarness::MustPublish(const std::vector<TokenId>& tokens,
                                      const Published& options) {
  return Publish(tokens, options).value().id;
}

std::optional<PrefixMatch> CatalogHarness::Longest(const std::vector<TokenId>& tokens,
                                                   int64_t first_position) {
  return catalog_->prefixes()->Longest(Query(tokens, first_position)).value();
}

namespace {

void Print(std::ostream& out, const ContextRecord& c) {
  out << "context " << c.Label() << " #" << static_cast<int64_t>(c.id) << " model "
      << static_cast<int64_t>(c.model) << " at " << c.first_position << " tokens " << c.num_tokens
      << " kv " << c.kv_bytes << " created " << c.created_us << " access " << c.last_access_us
      << " ttl " << c.ttl_seconds.value_or(-1) << " pinned " << c.pinned << " damaged " << c.damaged
      << "\n";
}

void Print(std::ostream& out, const SegmentRecord& s) {
  out << "segment " << s.id << " tenant " << static_cast<int64_t>(s.tenant) << " model "
      << static_cast<int64_t>(s.model) << " at " << s.first_position << " tokens " << s.num_tokens
      << " file " << s.file_bytes << " kv " << s.kv_bytes << " q " << s.query_bytes << " root "
      << HexEncode(s.root_hash) << " nan " << HexEncode(s.non_finite) << " damage " << s.damage
      << "\n";
  for (const CompanionRecord& c : s.companions) {
    out << "  companion " << c.kind << " " << c.generation << " required " << c.required << " file "
        << c.file_bytes << " root " << HexEncode(c.root_hash) << "\n";
  }
}

Status DumpContext(Catalog& catalog, const ContextRecord& context, const ModelSpec& spec,
                   std::ostream& out) {
  Print(out, context);
  ATTNDB_ASSIGN_OR_RETURN(const ContextDetail detail,
                          catalog.contexts()->Describe(context.tenant, context.id));
  out << "  own " << detail.own_bytes << " file " << detail.file_bytes << " retained "
      << detail.retained_bytes << "\n";
  ATTNDB_ASSIGN_OR_RETURN(const std::string note, catalog.contexts()->NoteOf(context));
  out << "  title " << detail.title << " continues " << static_cast<int64_t>(detail.continues)
      << " note " << HexEncode(std::as_bytes(std::span(note))) << "\n";
  for (const ChainSegment& item : detail.chain) {
    out << "  " << item.segment.id << " used " << item.num_tokens_used << " kept "
        << item.num_tokens_kept << " by " << item.num_contexts << "\n";
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                          catalog.contexts()->Tokens(context.id));
  for (const TokenId token : tokens) out << token << ",";
  const PrefixQuery query{context.tenant, &spec, context.first_position, tokens};
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<PrefixMatch> match,
                          catalog.prefixes()->Longest(query));
  out << "\n  longest " << (match ? static_cast<int64_t>(match->context) : 0) << " "
      << (match ? match->num_tokens : 0) << "\n";
  return {};
}

}  // namespace

std::vector<SegmentId> CatalogHarness::SegmentIds() const {
  std::vector<SegmentId> ids;
  const std::vector<storage::ObjectName> objects = catalog_->companions()->KnownObjects().value();
  for (const storage::ObjectName& object : objects) {
    if (object.kind != storage::kSegmentKind) continue;
    ids.push_back(static_cast<SegmentId>(object.segment_id));
  }
  return ids;
}

std::vector<SegmentId> IdsOf(const std::vector<SegmentRecord>& segments) {
  std::vector<SegmentId> ids;
  for (const SegmentRecord& segment : segments) ids.push_back(segment.id);
  return ids;
}

Result<std::string> CatalogHarness::Dump(Catalog& catalog, const ModelSpec& spec) {
  std::ostringstream out;
  out << HexEncode(catalog.store_uuid()) << "\n";
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<storage::ObjectName> objects,
                          catalog.companions()->KnownObjects());
  for (const storage::ObjectName& object : objects) {
    if (object.kind != storage::kSegmentKind) continue;  // It comes with its segment.
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord segment,
                            catalog.segments()->Get(static_cast<SegmentId>(object.segment_id)));
    Print(out, segment);
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec stored, catalog.owners()->GetModel(segment.model));
    out << "  fingerprint " << stored.fingerprint << "\n";
  }
  for (const char* const name : {"default", "other"}) {
    ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog.owners()->FindTenant(name));
    if (tenant.id == TenantId::kNone) continue;
    out << "tenant " << name << " quota " << tenant.quota_bytes << "\n";
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> contexts,
                            catalog.contexts()->List(tenant.id));
    for (const ContextRecord& context : contexts) {
      ATTNDB_RETURN_IF_ERROR(DumpContext(catalog, context, spec, out));
      if (context.name.empty()) continue;
      ATTNDB_ASSIGN_OR_RETURN(const ContextRecord found,
                              catalog.contexts()->Find(tenant.id, context.name));
      out << "  found by name: #" << static_cast<int64_t>(found.id) << "\n";
    }
  }
  return out.str();
}

}  // namespace attndb::store
