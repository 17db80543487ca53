// Publish: the commit of a new context, or of one that grows.

#include <algorithm>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "store/catalog/catalog_contexts.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/cut_bytes.h"
#include "store/catalog/earlier_context.h"
#include "store/catalog/mending.h"
#include "store/catalog/model_sources.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/tenant_numbers.h"
#include "store/catalog/text_layouts.h"
#include "store/catalog/ttl.h"

namespace attndb::store {
namespace {

std::string Text(uint64_t value) { return std::to_string(value); }

Status CheckRequest(const PublishRequest& request) {
  if (!request.name.empty()) ATTNDB_RETURN_IF_ERROR(CheckContextName(request.name));
  ATTNDB_RETURN_IF_ERROR(CheckTtl(request.ttl));
  if (request.tokens.empty()) return Status::InvalidArgument("a context of no tokens");
  const auto negative = std::ranges::find_if(request.tokens, [](TokenId t) { return t < 0; });
  if (negative != request.tokens.end()) {
    return Status::InvalidArgument("token " +
                                   Text(static_cast<uint64_t>(negative - request.tokens.begin())) +
                                   " is " + std::to_string(*negative) + ": expected an id >= 0");
  }
  ATTNDB_RETURN_IF_ERROR(CheckCuts(request.cuts, request.tokens.size()));
  ATTNDB_RETURN_IF_ERROR(request.text_layout.Validate(request.tokens.size()));
  ATTNDB_RETURN_IF_ERROR(CheckTitleAndNote(request.title, request.note));
  if (request.num_shared > request.tokens.size()) {
    return Status::Internal("publish: " + Text(request.num_shared) + " tokens shared of " +
                            Text(request.tokens.size()));
  }
  return {};
}

// One transaction's work, step by step.
class Publication {
 public:
  Publication(SqliteDatabase* database, const PublishRequest& request, int64_t now_us)
      : database_(database), request_(request), now_us_(now_us), index_(database) {}

  Result<PublishOutcome> Run();

 private:
  Status FindNameHolder();
  bool BaseMayGo() const;
  bool BaseGrows() const;
  Result<bool> IsSameText(const ContextRow& holder) const;
  Status InsertSegments();
  Status ResolveChain();
  Status CheckChain();
  Status CheckLink(const ChainLink& link, uint64_t num_tokens_before);
  Result<bool> IsEqualModel(ModelId other);
  Result<PrefixNode> FindAnchor(uint64_t* num_tokens);
  Result<PrefixIndex::InsertedPath> InsertPath();
  Status InsertRow();
  Status GrowRow();
  Status NoteTitleAndBase();
  Result<ContextId> FindContinued() const;
  Status DropWhatIsReplaced();
  Status AddEvicted(std::vector<ContextRow>* doomed);

  SqliteDatabase* const database_;  // Not owned.
  const PublishRequest& request_;
  const int64_t now_us_;
  PrefixIndex index_;

  ModelRow model_;
  TreeIdentity tree_;
  PrefixNode root_;
  std::optional<ContextRow> base_;  // The request's base, if the tenant has it.
  // The context that has the name, if that is not the base that grows.
  std::optional<ContextRow> holder_;
  bool is_mended_ = false;  // The holder is damaged and of this text: it gives its pin, too.
  std::vector<SegmentId> released_;
  PublishOutcome outcome_;
  PrefixIndex::InsertedPath path_;  // The path of a context that is new.
};

Result<PublishOutcome> Publication::Run() {
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow tenant, LoadTenantRow(database_, request_.tenant));
  ATTNDB_ASSIGN_OR_RETURN(model_, LoadModelRow(database_, request_.model));
  tree_ = {tenant.secret, model_.identity, request_.first_position};
  if (request_.base != ContextId::kNone) {
    ATTNDB_ASSIGN_OR_RETURN(base_, FindContextRow(database_, request_.tenant, request_.base));
  }
  outcome_.grown = BaseGrows();
  ATTNDB_RETURN_IF_ERROR(FindNameHolder());
  ATTNDB_RETURN_IF_ERROR(InsertSegments());
  ATTNDB_RETURN_IF_ERROR(ResolveChain());
  ATTNDB_RETURN_IF_ERROR(CheckChain());
  ATTNDB_ASSIGN_OR_RETURN(root_, index_.EnsureRoot(tree_));
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "INSERT OR IGNORE INTO prefix_roots(node, tenant, model, first_position) VALUES(?, ?, ?, ?)",
      root_.id, request_.tenant, request_.model, request_.first_position));
  ATTNDB_RETURN_IF_ERROR(
      NoteModelSource(database_, request_.tenant, request_.model, request_.source));
  ATTNDB_RETURN_IF_ERROR(outcome_.grown ? GrowRow() : InsertRow());
  ATTNDB_RETURN_IF_ERROR(NoteTextLayout(database_, outcome_.id, request_.text_layout));
  ATTNDB_RETURN_IF_ERROR(NoteTitleAndBase());
  ATTNDB_RETURN_IF_ERROR(StoreChain(database_, outcome_.id, outcome_.chain));
  ATTNDB_RETURN_IF_ERROR(MendContexts(database_,
                                      {.tenant = request_.tenant,
                                       .model = request_.model,
                                       .first_position = request_.first_position,
                                       .tokens = request_.tokens,
                                       .cuts = request_.cuts,
                                       .chain = outcome_.chain},
                                      &released_));
  ATTNDB_RETURN_IF_ERROR(DropWhatIsReplaced());
  ATTNDB_ASSIGN_OR_RETURN(outcome_.unreferenced, Unreferenced(database_, std::move(released_)));
  return std::move(outcome_);
}

// By drop_base. If the base has grown meanwhile, or is longer than the shared tokens, it holds
// tokens that the new context lacks.
bool Publication::BaseMayGo() const {
  return request_.drop_base && base_.has_value() && base_->record.name.empty() &&
         !base_->record.pinned && base_->record.num_tokens == request_.num_shared;
}

bool Publication::BaseGrows() const {
  if (!base_.has_value()) return false;
  const ContextRecord& base = base_->record;
  const bool same_prefix = base.model == request_.model && !base.damaged &&
                           base.first_position == request_.first_position &&
                           base.num_tokens == request_.num_shared;
  const bool is_replaced = request_.replace && !base.name.empty() && base.name == request_.name;
  return same_prefix && (is_replaced || BaseMayGo());
}

Status Publication::FindNameHolder() {
  if (request_.name.empty()) return {};
  ATTNDB_ASSIGN_OR_RETURN(holder_, FindContextRow(database_, request_.tenant, request_.name));
  if (!holder_.has_value()) return {};
  if (outcome_.grown && holder_->record.id == base_->record.id) {
    holder_.reset();
    return {};
  }
  ATTNDB_ASSIGN_OR_RETURN(is_mended_, IsSameText(*holder_));
  if (!request_.replace && !is_mended_) {
    return Status::AlreadyExists("context \"" + request_.name + "\" exists (" +
                                 Counted(holder_->record.num_tokens, "token") +
                                 "): drop it, or store with replace");
  }
  // Dropped at the end: until then the path that both may share stays in the index.
  return database_->Run("UPDATE contexts SET name = NULL WHERE id = ?", holder_->record.id);
}

// The same text, computed by the same model, mends a damaged context.
Result<bool> Publication::IsSameText(const ContextRow& holder) const {
  const ContextRecord& record = holder.record;
  if (!record.damaged || record.model != request_.model ||
      record.first_position != request_.first_position ||
      record.num_tokens != request_.tokens.size()) {
    return false;
  }
  ATTNDB_ASSIGN_OR_RETURN(const History history, index_.HistoryOf(holder.leaf, record.num_tokens));
  return std::ranges::equal(history.tokens, request_.tokens) && history.cuts == request_.cuts;
}

Status Publication::InsertSegments() {
  for (SegmentRecord segment : request_.new_segments) {
    segment.tenant = request_.tenant;
    segment.model = request_.model;
    ATTNDB_RETURN_IF_ERROR(InsertSegment(database_, segment));
  }
  return {};
}

// Links of the first num_tokens tokens; none if no link ends there.
std::optional<size_t> LinksOf(std::span<const ChainLink> chain, uint64_t num_tokens) {
  size_t num_links = 0;
  while (num_tokens > 0 && num_links < chain.size()) {
    if (chain[num_links].num_tokens_used > num_tokens) return std::nullopt;
    num_tokens -= chain[num_links++].num_tokens_used;
  }
  return num_tokens == 0 ? std::optional(num_links) : std::nullopt;
}

// The caller knows the base's chain as of its open. A merge since then gave all contexts that share
// the merged segments new links; the new context shares them too.
Status Publication::ResolveChain() {
  outcome_.chain = request_.chain;
  if (!base_.has_value() || base_->record.damaged || base_->record.model != request_.model ||
      base_->record.first_position != request_.first_position ||
      base_->record.num_tokens < request_.num_shared) {
    return {};
  }
  const std::optional<size_t> num_links = LinksOf(request_.chain, request_.num_shared);
  if (!num_links) return {};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> base,
                          LoadChain(database_, base_->record.id));
  outcome_.chain = FirstLinks(base, request_.num_shared);
  outcome_.chain.insert(outcome_.chain.end(),
                        request_.chain.begin() + static_cast<ptrdiff_t>(*num_links),
                        request_.chain.end());
  return {};
}

Status Publication::CheckChain() {
  uint64_t num_tokens = 0;
  for (const ChainLink& link : outcome_.chain) {
    ATTNDB_RETURN_IF_ERROR(CheckLink(link, num_tokens));
    num_tokens += link.num_tokens_used;
  }
  if (num_tokens == request_.tokens.size()) return {};
  return Status::Internal("publish: the chain holds " + Text(num_tokens) + " tokens, expected " +
                          Text(request_.tokens.size()));
}

Status Publication::CheckLink(const ChainLink& link, uint64_t num_tokens_before) {
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord segment, RequireSoundTokens(database_, link));
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model, IsEqualModel(segment.model));
  const int64_t position = request_.first_position + static_cast<int64_t>(num_tokens_before);
  if (segment.tenant == request_.tenant && same_model && segment.first_position == position &&
      link.num_tokens_used >= 1 && link.num_tokens_used <= segment.num_tokens) {
    return {};
  }
  return Status::Internal("publish: segment " + std::to_string(link.segment) + " (" +
                          Text(segment.num_tokens) + " tokens from position " +
                          std::to_string(segment.first_position) + ") can't give " +
                          Text(link.num_tokens_used) + " tokens from position " +
                          std::to_string(position) + " to this tenant and model");
}

Result<bool> Publication::IsEqualModel(ModelId other) {
  if (other == request_.model) return true;
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow tenant, LoadTenantRow(database_, request_.tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ModelRow> models,
                          EqualModels(database_, tenant, model_.layout, model_.fingerprint));
  return std::ranges::any_of(models, [&](const ModelRow& m) { return m.id == other; });
}

// The deepest node below which the tokens may be new to the index, and its number of tokens.
Result<PrefixNode> Publication::FindAnchor(uint64_t* num_tokens) {
  *num_tokens = 0;
  if (!base_.has_value() || base_->record.model != request_.model ||
      base_->record.first_position != request_.first_position) {
    return root_;
  }
  if (request_.num_shared > base_->record.num_tokens) {
    return Status::Internal("publish: " + Text(request_.num_shared) + " tokens shared with " +
                            base_->record.Label() + ", which has " +
                            Text(base_->record.num_tokens));
  }
  *num_tokens = request_.num_shared / kBlockTokens * kBlockTokens;
  return index_.Ancestor(base_->leaf, base_->record.num_tokens, *num_tokens);
}

Result<PrefixIndex::InsertedPath> Publication::InsertPath() {
  uint64_t num_tokens = 0;
  ATTNDB_ASSIGN_OR_RETURN(const PrefixNode anchor, FindAnchor(&num_tokens));
  // Cuts before the anchor's end are on the anchor's path.
  const std::span<const Cut> cuts = request_.cuts;
  const auto behind =
      std::ranges::lower_bound(cuts, num_tokens, {}, [](const Cut& cut) { return cut.at; });
  return index_.Insert(tree_, anchor,
                       {num_tokens, request_.tokens.subspan(num_tokens), {behind, cuts.end()}},
                       outcome_.id);
}

Status Publication::InsertRow() {
  const std::optional<std::string_view> name =
      request_.name.empty() ? std::nullopt : std::optional<std::string_view>(request_.name);
  // The index needs the id and the row needs the leaf: the root stands in for it.
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "INSERT INTO contexts(tenant, model, name, first_position, num_tokens, kv_bytes, created_us, "
      "last_access_us, ttl_s, pinned, damaged, leaf) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
      request_.tenant, request_.model, name, request_.first_position, request_.tokens.size(),
      request_.kv_bytes, now_us_, now_us_, TtlSeconds(request_.ttl),
      request_.pin || (is_mended_ && holder_->record.pinned), root_.id));
  outcome_.id = static_cast<ContextId>(database_->last_insert_id());
  ATTNDB_ASSIGN_OR_RETURN(outcome_.number, NumberContext(database_, request_.tenant, outcome_.id));
  ATTNDB_ASSIGN_OR_RETURN(path_, InsertPath());
  return database_->Run("UPDATE contexts SET leaf = ? WHERE id = ?", path_.leaf, outcome_.id);
}

Status Publication::GrowRow() {
  outcome_.id = base_->record.id;
  outcome_.number = base_->record.number;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> old_chain,
                          LoadChain(database_, outcome_.id));
  for (const ChainLink& link : old_chain) released_.push_back(link.segment);
  ATTNDB_ASSIGN_OR_RETURN(const PrefixIndex::InsertedPath path, InsertPath());
  const std::optional<std::string_view> name =
      request_.name.empty() ? std::nullopt : std::optional<std::string_view>(request_.name);
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "UPDATE contexts SET name = ?, num_tokens = ?, kv_bytes = ?, last_access_us = ?, ttl_s = ?, "
      "pinned = ?, leaf = ? WHERE id = ?",
      name, request_.tokens.size(), request_.kv_bytes, now_us_, TtlSeconds(request_.ttl),
      request_.pin, path.leaf, outcome_.id));
  return index_.RemoveEnd(base_->leaf, outcome_.id);
}

// A context that takes the name or the place of another one keeps the other's title and note.
Status Publication::NoteTitleAndBase() {
  ATTNDB_RETURN_IF_ERROR(SetTitleAndNote(database_, outcome_.id, request_.title, request_.note));
  // The contexts that continue it do not have the tokens that it has now.
  if (outcome_.grown) return PassOnContinued(database_, outcome_.id);
  const bool is_whole = base_.has_value() && base_->record.num_tokens == request_.num_shared;
  const bool has_bases_name = is_whole && holder_ && holder_->record.id == base_->record.id;
  if (holder_ && (is_mended_ || has_bases_name)) {
    ATTNDB_RETURN_IF_ERROR(TakeTitleAndNote(database_, outcome_.id, holder_->record.id));
  } else if (BaseMayGo()) {
    ATTNDB_RETURN_IF_ERROR(TakeTitleAndNote(database_, outcome_.id, base_->record.id));
  }
  ATTNDB_ASSIGN_OR_RETURN(const ContextId continued, FindContinued());
  if (continued == ContextId::kNone) return {};
  return SetContinued(database_, outcome_.id, continued);
}

// The longest context that is a beginning of the new one; of several, the base. It may have been
// published after the base was chosen, or lie within a base with more tokens.
Result<ContextId> Publication::FindContinued() const {
  ContextId continued = ContextId::kNone;
  if (request_.cuts.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(continued,
                            EarlierContext(database_, index_, path_.first_new, outcome_.id));
  }
  if (!base_.has_value() || base_->record.num_tokens != request_.num_shared) return continued;
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextRow> earlier,
                          FindContextRow(database_, request_.tenant, continued));
  const bool is_longer = earlier && earlier->record.num_tokens > base_->record.num_tokens;
  return is_longer ? continued : base_->record.id;
}

Status Publication::DropWhatIsReplaced() {
  std::vector<ContextRow> doomed;
  if (holder_.has_value()) doomed.push_back(*holder_);
  if (!outcome_.grown && BaseMayGo()) doomed.push_back(*base_);
  ATTNDB_RETURN_IF_ERROR(AddEvicted(&doomed));
  // Newest first (prefix_index.h, invariants).
  std::ranges::sort(doomed, std::greater(), [](const ContextRow& row) { return row.record.id; });
  for (const ContextRow& row : doomed) {
    ATTNDB_RETURN_IF_ERROR(DropContext(database_, row, &released_));
    outcome_.dropped.push_back(row.record.id);
  }
  return {};
}

Status Publication::AddEvicted(std::vector<ContextRow>* doomed) {
  for (const ContextId id : request_.evict) {
    const bool known =
        std::ranges::any_of(*doomed, [id](const ContextRow& row) { return row.record.id == id; });
    if (known || id == outcome_.id) continue;
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextRow> row,
                            FindContextRow(database_, request_.tenant, id));
    if (!row.has_value() || row->record.pinned) continue;
    doomed->push_back(*row);
    outcome_.evicted.push_back(row->record.Label());
  }
  return {};
}

}  // namespace

Result<PublishOutcome> CatalogContexts::Publish(const PublishRequest& request) {
  ATTNDB_RETURN_IF_ERROR(CheckRequest(request));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(PublishOutcome outcome,
                          Publication(core_->database(), request, core_->GiveDate()).Run());
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return outcome;
}

}  // namespace attndb::store
