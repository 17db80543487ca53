#include "store/admin.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "store/catalog/ttl.h"
#include "store/non_finite.h"
#include "store/segment_facts.h"

namespace attndb::store {

ContextInfo Admin::InfoOf(const ContextDetail& detail, const ModelSpec& spec) const {
  const ContextRecord& record = detail.context;
  ContextInfo info;
  info.id = PublicId(record.number);
  info.name = record.name;
  info.title = detail.title;
  info.continues = PublicId(detail.continues);
  info.num_tokens = record.num_tokens;
  info.kv_bytes = record.kv_bytes;
  info.file_bytes = detail.file_bytes;
  info.own_bytes = detail.own_bytes;
  info.retained_bytes = detail.retained_bytes;
  info.query_sample_bytes = detail.query_bytes;
  info.created_us = record.created_us;
  info.last_access_us = record.last_access_us;
  info.ttl_seconds = record.ttl_seconds;
  info.pinned = record.pinned;
  info.expired = IsExpired(record.pinned, record.ttl_seconds, record.last_access_us,
                           parts_.catalog->ExpiryNow());
  info.damaged = record.damaged;
  info.first_position = record.first_position;
  for (const ChainSegment& link : detail.chain) {
    SegmentInfo& segment = info.segments.emplace_back();
    segment.segment_id = static_cast<int64_t>(link.segment.number);
    segment.num_tokens_used = link.num_tokens_used;
    segment.num_tokens = link.segment.num_tokens;
    segment.file_bytes = link.segment.file_bytes;
    segment.num_contexts = link.num_contexts;
    segment.damage = link.segment.damage;
    for (const CompanionRecord& companion : link.segment.companions) {
      segment.companions.push_back({companion.kind, companion.file_bytes});
      info.companion_bytes += companion.file_bytes;
      info.derived_bytes[companion.kind] += companion.file_bytes;
    }
    if (parts_.builder->IsPending(FactsOf(link.segment))) ++info.num_pending_companions;
  }
  info.kv_dtype = spec.kv_dtype;
  info.unrotated_keys = spec.unrotated_keys;
  info.fingerprint = spec.fingerprint;
  info.model_name = spec.source.name;
  info.model_path = spec.source.path;
  info.num_layers = spec.num_layers();
  const auto scaled = std::ranges::find_if(
      spec.layers, [](const LayerSpec& layer) { return !layer.rope.scaling.empty(); });
  if (scaled != spec.layers.end()) info.rope_scaling = scaled->rope.scaling;
  std::set<std::pair<uint32_t, uint32_t>> heads;
  for (const ChainSegment& link : detail.chain) {
    DecodeNonFinite(link.segment.non_finite, spec, &heads);
  }
  for (const auto& [layer, head] : heads) {
    info.non_finite_heads.push_back("layer " + std::to_string(layer) + " head " +
                                    std::to_string(head));
  }
  return info;
}

Result<ModelSpec> Admin::ModelOf(TenantId tenant, ModelId model) const {
  ATTNDB_ASSIGN_OR_RETURN(ModelSpec spec, parts_.catalog->owners()->GetModel(model));
  ATTNDB_ASSIGN_OR_RETURN(spec.source, parts_.catalog->owners()->SourceOf(tenant, model));
  return spec;
}

Status Admin::NoteLostFiles(ContextDetail* detail) const {
  for (ChainSegment& link : detail->chain) {
    const SegmentId id = link.segment.id;
    if (!link.segment.damage.empty()) continue;
    const Status status = parts_.damage->CheckFiles(id, link.segment.file_bytes);
    if (status.code() != StatusCode::kCorruption) continue;  // Nothing is known of an absent disk.
    // A merge meanwhile gives the context another chain, and removes the replaced segments.
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                            parts_.catalog->contexts()->Chain(detail->context.id));
    if (std::ranges::count(chain, id, &ChainLink::segment) == 0) continue;
    link.segment.damage = status.message();
    detail->context.damaged = true;
  }
  return Status::Ok();
}

Result<ContextInfo> Admin::Describe(const std::string& tenant, std::string_view context) const {
  parts_.damage->Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(ContextDetail detail,
                          parts_.catalog->contexts()->Describe(record.tenant, record.id));
  ATTNDB_RETURN_IF_ERROR(NoteLostFiles(&detail));
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, ModelOf(record.tenant, record.model));
  ContextInfo info = InfoOf(detail, spec);
  ATTNDB_ASSIGN_OR_RETURN(info.text_layout, parts_.catalog->contexts()->TextOf(record));
  // A walk over the context's path: merging, which describes contexts too, does without it.
  ATTNDB_ASSIGN_OR_RETURN(History history, parts_.catalog->contexts()->HistoryOf(record.id));
  for (const Cut& cut : history.cuts) {
    for (const TokenRange& range : cut.dropped) info.num_dropped += range.end - range.begin;
  }
  info.cuts = std::move(history.cuts);
  return info;
}

Result<std::vector<ContextInfo>> Admin::List(const std::string& tenant) const {
  constexpr size_t kPage = 500;  // Contexts that are described while others wait for the catalog.
  parts_.damage->Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> records,
                          parts_.catalog->contexts()->List(owner.id));
  std::map<ModelId, ModelSpec> specs;
  std::vector<ContextInfo> infos;
  infos.reserve(records.size());
  for (std::span rest(records); !rest.empty(); rest = rest.subspan(std::min(kPage, rest.size()))) {
    ATTNDB_ASSIGN_OR_RETURN(
        const std::vector<ContextDetail> page,
        parts_.catalog->contexts()->DescribeAll(rest.first(std::min(kPage, rest.size()))));
    for (const ContextDetail& detail : page) {
      const ModelId model = detail.context.model;
      auto spec = specs.find(model);
      if (spec == specs.end()) {
        ATTNDB_ASSIGN_OR_RETURN(ModelSpec found, ModelOf(owner.id, model));
        spec = specs.emplace(model, std::move(found)).first;
      }
      infos.push_back(InfoOf(detail, spec->second));
      infos.back().segments.clear();
    }
  }
  return infos;
}

Result<std::string> Admin::Note(const std::string& tenant, std::string_view context) const {
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  return parts_.catalog->contexts()->NoteOf(record);
}

Status Admin::Pin(const std::string& tenant, std::string_view context, bool pinned) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  return parts_.catalog->contexts()->Pin(record.tenant, record.id, pinned);
}

Status Admin::SetTtl(const std::string& tenant, std::string_view context,
                     std::optional<std::chrono::seconds> ttl) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  return parts_.catalog->contexts()->SetTtl(record.tenant, record.id, ttl);
}

Status Admin::SetQuota(const std::string& tenant, uint64_t bytes) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->EnsureTenant(tenant));
  return parts_.catalog->owners()->SetQuota(owner.id, bytes);
}

Status Admin::DeclareEqual(const std::string& tenant, std::string_view fingerprint_a,
                           std::string_view fingerprint_b) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->EnsureTenant(tenant));
  return parts_.catalog->owners()->DeclareEqual(owner.id, fingerprint_a, fingerprint_b);
}

Status Admin::RevokeEqual(const std::string& tenant, std::string_view fingerprint_a,
                          std::string_view fingerprint_b) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->EnsureTenant(tenant));
  return parts_.catalog->owners()->RevokeEqual(owner.id, fingerprint_a, fingerprint_b);
}

}  // namespace attndb::store
