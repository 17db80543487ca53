#include "derived/kind.h"

#include <optional>
#include <utility>

#include "derived/plane_sources.h"
#include "storage/vfs/format.h"

namespace attndb::derived {
namespace {

// A head of an object, whose parts are not empty.
Result<HeadParts> ReadParts(const Kind& kind, const storage::Companion& object,
                            const storage::KvRun& run, LayerId layer, const LayerSpec& spec,
                            uint32_t head) {
  HeadParts parts = {.run = &run,
                     .layer = layer,
                     .spec = &spec,
                     .name = storage::Describe(object.name()) + ", layer " + std::to_string(layer) +
                             ", head " + std::to_string(head)};
  for (uint32_t part = 0; part < kind.traits().parts.size(); ++part) {
    ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange range, object.ReadPart({layer, head, part}));
    parts.parts.push_back(std::move(range));
  }
  return parts;
}

// Makes the heads of one layer, one after another.
class LayerBuilder {
 public:
  LayerBuilder(const Kind& kind, const storage::KvRun& run, LayerId layer, const LayerSpec& spec,
               const Kind::BuildOptions& options)
      : kind_(kind), run_(run), layer_(layer), spec_(spec), options_(options) {
    if (IsOfKeys()) sources_.emplace(run, layer, spec);
  }

  // Builds the object of one head, which has no NaN and no Inf.
  Result<BuiltHead> Build(uint32_t kv_head) const {
    ATTNDB_ASSIGN_OR_RETURN(
        const storage::HeadRows rows,
        run_.ReadRows(layer_, kv_head,
                      IsOfKeys() ? storage::RowPart::kKeys : storage::RowPart::kValues));
    HeadSource source = {.run = &run_,
                         .layer = layer_,
                         .kv_head = kv_head,
                         .spec = &spec_,
                         .rows = rows.data(),
                         .pool = options_.pool,
                         .cancel = options_.cancel};
    if (!IsOfKeys()) return kind_.Build(source);
    const index::PlaneSource keys = sources_->Of(kv_head, rows.data());
    source.keys = &keys;
    const std::optional<PriorHead> prior = ReadPrior(kv_head);
    if (prior) source.prior = &*prior;
    return kind_.Build(source);
  }

 private:
  // None if there is none that can be read.
  std::optional<PriorHead> ReadPrior(uint32_t kv_head) const {
    if (options_.prior == nullptr) return std::nullopt;
    const storage::Companion& object = *options_.prior->object;
    if (object.num_rows({layer_, kv_head, 0}) == 0) return std::nullopt;
    Result<HeadParts> parts = ReadParts(kind_, object, run_, layer_, spec_, kv_head);
    if (!parts.ok()) return std::nullopt;
    return PriorHead{std::move(parts->name), std::move(parts->parts), options_.prior->num_tokens};
  }

  bool IsOfKeys() const { return kind_.traits().made_of == Kind::Rows::kKeys; }

  const Kind& kind_;
  const storage::KvRun& run_;
  const LayerId layer_;
  const LayerSpec& spec_;
  const Kind::BuildOptions options_;
  std::optional<PlaneSources> sources_;
};

bool IsCancelled(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

uint32_t NumHeads(const storage::KvRun& run, LayerId layer) {
  return run.shape().layers[layer].num_kv_heads;
}

}  // namespace

Status Kind::CancelledIn(LayerId layer) const {
  return Status::Cancelled(traits_.object + " of layer " + std::to_string(layer));
}

Result<bool> Kind::TakeOver(const storage::PartPlace& first, const storage::Companion* begun,
                            storage::CompanionWriter* writer) const {
  if (begun == nullptr || begun->num_rows(first) == 0) return false;
  std::vector<storage::ObjectRange> parts;
  for (uint32_t part = 0; part < traits_.parts.size(); ++part) {
    Result<storage::ObjectRange> range = begun->ReadPart({first.layer, first.kv_head, part});
    if (!range.ok()) return false;  // It is built again.
    parts.push_back(*std::move(range));
  }
  for (const storage::ObjectRange& part : parts) {
    ATTNDB_RETURN_IF_ERROR(writer->AddPart(part.bytes, begun->num_rows(first)));
  }
  return true;
}

bool HasObjects(const LayerSpec& spec) { return spec.sliding_window == 0; }

uint64_t Kind::ObjectBytes(const storage::KvRun& run, const ModelSpec& spec) const {
  uint64_t bytes = 0;
  for (LayerId layer = 0; layer < run.shape().layers.size(); ++layer) {
    bytes += NumHeads(run, layer) * HeadBytes(run, layer, spec.layers[layer]);
  }
  return bytes;
}

uint64_t Kind::MemoryBytes(const storage::KvRun& run, LayerId layer, const LayerSpec& spec) const {
  // Parts are read in whole granules: each begins and ends inside one.
  const uint64_t ends = uint64_t{2} * traits_.parts.size() * storage::kGranuleBytes;
  return NumHeads(run, layer) * (HeadBytes(run, layer, spec) + ends);
}

Result<std::vector<Head>> Kind::BuildLayer(const storage::KvRun& run, LayerId layer,
                                           const LayerSpec& spec,
                                           const BuildOptions& options) const {
  const LayerBuilder builder(*this, run, layer, spec, options);
  std::vector<Head> heads(NumHeads(run, layer));
  for (uint32_t head = 0; head < heads.size(); ++head) {
    if (run.non_finite(layer, head)) continue;
    if (IsCancelled(options.cancel)) return CancelledIn(layer);
    ATTNDB_ASSIGN_OR_RETURN(BuiltHead built, builder.Build(head));
    heads[head] = std::move(built.head);
  }
  return heads;
}

Result<std::vector<Head>> Kind::ReadLayer(const storage::Companion& object,
                                          const storage::KvRun& run, LayerId layer,
                                          const LayerSpec& spec) const {
  std::vector<Head> heads(NumHeads(run, layer));
  for (uint32_t head = 0; head < heads.size(); ++head) {
    if (object.num_rows({layer, head, 0}) == 0) continue;
    ATTNDB_ASSIGN_OR_RETURN(HeadParts parts, ReadParts(*this, object, run, layer, spec, head));
    ATTNDB_ASSIGN_OR_RETURN(heads[head], Parse(std::move(parts)));
  }
  return heads;
}

Status Kind::Write(const storage::KvRun& run, const ModelSpec& spec, ThreadPool* pool,
                   storage::CompanionWriter* writer, const std::function<void(LayerId)>& layer_done,
                   const PriorObject* prior, const storage::Companion* begun) const {
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerBuilder builder(*this, run, layer, spec.layers[layer],
                               {.pool = pool, .cancel = writer->cancel(), .prior = prior});
    for (uint32_t head = 0; head < NumHeads(run, layer); ++head) {
      ATTNDB_ASSIGN_OR_RETURN(const bool is_taken, TakeOver({layer, head, 0}, begun, writer));
      if (is_taken) continue;
      if (IsCancelled(writer->cancel())) return CancelledIn(layer);
      BuiltHead built;
      if (HasObjects(spec.layers[layer]) && !run.non_finite(layer, head)) {
        ATTNDB_ASSIGN_OR_RETURN(built, builder.Build(head));
      }
      built.parts.resize(traits_.parts.size());
      for (const std::span<const std::byte> part : built.parts) {
        ATTNDB_RETURN_IF_ERROR(writer->AddPart(part, built.num_rows));
      }
    }
    layer_done(layer);
  }
  return Status::Ok();
}

}  // namespace attndb::derived
