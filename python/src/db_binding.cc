#include "python/src/db_binding.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "attndb/options.h"
#include "python/src/arrays.h"
#include "python/src/custom_binding.h"
#include "python/src/path.h"
#include "python/src/py_progress.h"
#include "python/src/results.h"
#include "python/src/session_binding.h"
#include "python/src/spec.h"
#include "python/src/status_error.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

// Token ids in the form that attndb._arrays.token_ids makes.
using Ids = nb::ndarray<const int32_t, nb::numpy, nb::ndim<1>, nb::c_contig>;

std::span<const TokenId> Span(const Ids& ids) { return {ids.data(), ids.size()}; }

PyDb Open(const nb::bytes& path, bool read_only, bool create_if_missing, const std::string& plan,
          double query_sample, uint32_t dense_query_tokens, uint32_t num_threads,
          uint64_t host_memory_bytes, bool background_builds, uint32_t background_threads,
          bool measure_machine, const std::string& index, uint32_t kmeans_iterations,
          uint32_t roar_keys_per_query, uint32_t roar_max_degree, uint32_t roar_search_window,
          uint32_t max_training_queries, bool grow_graphs, uint64_t import_segment_tokens,
          const std::vector<PyCustomType>& custom_indexes) {
  const DBOptions options = {.read_only = read_only,
                             .create_if_missing = create_if_missing,
                             .plan = plan,
                             .query_sample = query_sample,
                             .dense_query_tokens = dense_query_tokens,
                             .num_threads = num_threads,
                             .host_memory_bytes = host_memory_bytes,
                             .background_builds = background_builds,
                             .background_threads = background_threads,
                             .index = index,
                             .kmeans_iterations = kmeans_iterations,
                             .roar_keys_per_query = roar_keys_per_query,
                             .roar_max_degree = roar_max_degree,
                             .roar_search_window = roar_search_window,
                             .max_training_queries = max_training_queries,
                             .grow_graphs = grow_graphs,
                             .import_segment_tokens = import_segment_tokens,
                             .measure_machine = measure_machine,
                             .custom_indexes = ToCustomIndexes(custom_indexes),
                             .clock = nullptr};
  const std::string folder = PathFrom(path);
  return PyDb(Unwrap(Unlocked([&] { return DB::Open(folder, options); })));
}

SessionOptions ToSessionOptions(const std::string& context, bool reuse, bool truncated,
                                const std::string& plan, int64_t first_position) {
  return {.context = context,
          .reuse = reuse,
          .truncated = truncated,
          .plan = plan,
          .first_position = first_position};
}

std::unique_ptr<PySession> CreateSession(const PyDb& self, nb::handle spec, const Ids& tokens,
                                         const std::string& context, bool reuse, bool truncated,
                                         const std::string& plan, int64_t first_position) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  const SessionOptions options = ToSessionOptions(context, reuse, truncated, plan, first_position);
  auto start = Unlocked([&] { return db->CreateSession(model, Span(tokens), options); });
  return std::make_unique<PySession>(Unwrap(std::move(start)).session);
}

std::unique_ptr<PySession> CreateSessionOver(const PyDb& self, nb::handle spec,
                                             const std::vector<std::string>& contexts,
                                             const std::string& plan, int64_t first_position) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  const SessionOptions options = {.plan = plan, .first_position = first_position};
  auto session = Unlocked([&] { return db->CreateSessionOver(model, contexts, options); });
  return std::make_unique<PySession>(Unwrap(std::move(session)));
}

Dict ExplainPrefix(const PyDb& self, nb::handle spec, const Ids& tokens, const std::string& context,
                   bool reuse, bool truncated, const std::string& plan, int64_t first_position) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  const SessionOptions options = ToSessionOptions(context, reuse, truncated, plan, first_position);
  auto explain = Unlocked([&] { return db->ExplainPrefix(model, Span(tokens), options); });
  return ToDict(Unwrap(std::move(explain)));
}

Dict CheckRoom(const PyDb& self, nb::handle spec, const Ids& tokens, int64_t first_position,
               uint64_t checkpoint_tokens) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  const RoomOptions options = {.first_position = first_position,
                               .checkpoint_tokens = checkpoint_tokens};
  return ToDict(Unwrap(Unlocked([&] { return db->CheckRoom(model, Span(tokens), options); })));
}

std::string_view AsView(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

int64_t Store(const PyDb& self, PySession& session, const Ids& tokens, const std::string& name,
              bool replace, bool drop_base, std::optional<int64_t> ttl, bool pin,
              const std::string& text_layout, const std::string& title, const nb::bytes& note) {
  const auto db = self.Get();
  const PySession::Use use(session);
  const StoreOptions options =
      ToStoreOptions(name, replace, drop_base, ttl, pin, text_layout, title, AsView(note));
  auto id = Unlocked([&] { return db->Store(*use, Span(tokens), options); });
  return static_cast<int64_t>(Unwrap(std::move(id)));
}

PendingStore StoreAsync(const PyDb& self, PySession& session, const Ids& tokens,
                        const std::string& name, bool replace, bool drop_base,
                        std::optional<int64_t> ttl, bool pin, const std::string& text_layout,
                        const std::string& title, const nb::bytes& note) {
  const auto db = self.Get();
  const PySession::Use use(session);
  const StoreOptions options =
      ToStoreOptions(name, replace, drop_base, ttl, pin, text_layout, title, AsView(note));
  return Unwrap(Unlocked([&] { return db->StoreAsync(*use, Span(tokens), options); }));
}

int64_t Import(const PyDb& self, nb::handle spec, const Ids& tokens,
               const nb::typed<nb::list, nb::any>& layers,
               const nb::typed<nb::list, nb::any>& queries, const std::string& name, bool replace,
               std::optional<int64_t> ttl, bool pin) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  std::deque<InputArray> arrays;  // Keeps the memory alive.
  std::vector<LayerKv> views;
  for (const nb::handle pair : layers) {
    const auto kv = nb::cast<nb::tuple>(pair);
    if (kv.size() != 2) {
      throw StatusError(Status::InvalidArgument("layers: expected pairs (k, v), found " +
                                                std::to_string(kv.size()) + " arrays"));
    }
    const TensorView k = arrays.emplace_back(kv[0], "k").view();
    views.push_back({.k = k, .v = arrays.emplace_back(kv[1], "v").view()});
  }
  std::vector<TensorView> query_views;
  for (const nb::handle q : queries)
    query_views.push_back(arrays.emplace_back(q, "queries").view());
  const StoreOptions options = ToStoreOptions(name, replace, false, ttl, pin);
  auto id = Unlocked([&] { return db->Import(model, Span(tokens), views, options, query_views); });
  return static_cast<int64_t>(Unwrap(std::move(id)));
}

Dict Find(const PyDb& self, nb::handle spec,
          const std::vector<std::pair<uint32_t, uint32_t>>& heads,
          const nb::typed<nb::list, nb::any>& q, int64_t first_position, uint32_t limit,
          const std::vector<std::string>& contexts, uint32_t passage_tokens, bool head_scores) {
  const auto db = self.Get();
  const ModelSpec model = SpecFromPython(spec);
  std::deque<InputArray> arrays;  // Keeps the memory alive.
  FindQuery query;
  query.first_position = first_position;
  for (const auto& [layer, q_head] : heads) query.heads.push_back({layer, q_head});
  for (const nb::handle rows : q) query.q.push_back(arrays.emplace_back(rows, "q").view());
  const FindOptions options = {.limit = limit,
                               .contexts = contexts,
                               .passage_tokens = passage_tokens,
                               .head_scores = head_scores};
  return ToDict(Unwrap(Unlocked([&] { return db->Find(model, query, options); })));
}

nb::typed<nb::list, Dict> List(const PyDb& self) {
  const auto db = self.Get();
  nb::typed<nb::list, Dict> list;
  for (const ContextInfo& info : Unwrap(Unlocked([&] { return db->List(); }))) {
    list.append(ToDict(info));
  }
  return list;
}

Dict Describe(const PyDb& self, const std::string& context) {
  const auto db = self.Get();
  return ToDict(Unwrap(Unlocked([&] { return db->Describe(context); })));
}

std::vector<TokenId> Tokens(const PyDb& self, const std::string& context) {
  const auto db = self.Get();
  return Unwrap(Unlocked([&] { return db->Tokens(context); }));
}

void Pin(const PyDb& self, const std::string& name, bool pinned) {
  const auto db = self.Get();
  ThrowIfError(Unlocked([&] { return db->Pin(name, pinned); }));
}

void SetTtl(const PyDb& self, const std::string& context, std::optional<int64_t> ttl) {
  const auto db = self.Get();
  std::optional<std::chrono::seconds> seconds;
  if (ttl.has_value()) seconds = std::chrono::seconds(*ttl);
  ThrowIfError(Unlocked([&] { return db->SetTtl(context, seconds); }));
}

// Calls DB::DeclareEqual or DB::RevokeEqual.
template <Status (DB::*kAct)(std::string_view, std::string_view) const>
void OfFingerprints(const PyDb& self, const nb::bytes& a, const nb::bytes& b) {
  const auto db = self.Get();
  const std::string_view first(a.c_str(), a.size());
  const std::string_view second(b.c_str(), b.size());
  ThrowIfError(Unlocked([&] { return ((*db).*kAct)(first, second); }));
}

Dict Verify(const PyDb& self, const std::string& context, const nb::object& progress) {
  const auto db = self.Get();
  PyProgress py_progress(progress);
  const VerifyOptions options = {.context = context, .progress = py_progress.function()};
  auto report = Unlocked([&] { return db->Verify(options); });
  py_progress.Rethrow();
  return ToDict(Unwrap(std::move(report)));
}

void Compact(const PyDb& self, const std::string& context, uint64_t segment_tokens,
             const nb::object& progress) {
  const auto db = self.Get();
  PyProgress py_progress(progress);
  const CompactOptions options = {
      .context = context, .segment_tokens = segment_tokens, .progress = py_progress.function()};
  const Status status = Unlocked([&] { return db->Compact(options); });
  py_progress.Rethrow();
  ThrowIfError(status);
}

Dict Build(const PyDb& self, const std::string& context, const std::string& index,
           const nb::object& progress) {
  const auto db = self.Get();
  PyProgress py_progress(progress);
  const BuildOptions options = {.progress = py_progress.function()};
  Result<BuildReport> report = Unlocked([&] { return db->Build(context, index, options); });
  py_progress.Rethrow();
  return ToDict(Unwrap(std::move(report)));
}

void WaitForBackground(const PyDb& self, const nb::object& progress) {
  const auto db = self.Get();
  PyProgress py_progress(progress);
  const WaitOptions options = {.progress = py_progress.function()};
  const Status status = Unlocked([&] { return db->WaitForBackground(options); });
  py_progress.Rethrow();
  ThrowIfError(status);
}

}  // namespace

PyDb::PyDb(DB db)
    : db_(new DB(std::move(db)), [](const DB* last) { Unlocked([&] { delete last; }); }) {}

std::shared_ptr<const DB> PyDb::Get() const {
  if (db_ == nullptr) throw StatusError(Status::FailedPrecondition("store: closed"));
  return db_;
}

StoreOptions ToStoreOptions(const std::string& name, bool replace, bool drop_base,
                            std::optional<int64_t> ttl, bool pin, const std::string& text_layout,
                            const std::string& title, std::string_view note) {
  StoreOptions options = {.name = name,
                          .replace = replace,
                          .drop_base = drop_base,
                          .ttl = std::nullopt,
                          .pin = pin,
                          .text_layout = Unwrap(TextLayout::Parse(text_layout)),
                          .title = title,
                          .note = std::string(note)};
  if (ttl.has_value()) options.ttl = std::chrono::seconds(*ttl);
  return options;
}

namespace {

void BindPendingStore(nb::module_& module) {
  nb::class_<PendingStore>(module, "PendingStore", nb::is_final())
      .def("done", &PendingStore::done)
      .def("wait", [](const PendingStore& self) {
        return static_cast<int64_t>(Unwrap(Unlocked([&] { return self.Wait(); })));
      });
}

// Calls that read facts about contexts, or change how long contexts stay.
void BindAdmin(nb::class_<PyDb>* db) {
  const auto context = nb::arg("context");
  (*db)
      .def("list_contexts", List)
      .def("describe", Describe, context)
      .def("tokens", Tokens, context)
      .def(
          "note",
          [](const PyDb& self, const std::string& context) {
            const auto db = self.Get();
            const std::string note = Unwrap(Unlocked([&] { return db->Note(context); }));
            return nb::bytes(note.data(), note.size());
          },
          context)
      .def("pin", Pin, context, nb::arg("pinned"))
      .def("set_ttl", SetTtl, context, nb::arg("ttl").none())
      .def(
          "rename",
          [](const PyDb& self, const std::string& context, const std::string& name) {
            const auto db = self.Get();
            ThrowIfError(Unlocked([&] { return db->Rename(context, name); }));
          },
          context, nb::arg("name"))
      .def(
          "drop",
          [](const PyDb& self, const std::string& name) {
            const auto db = self.Get();
            ThrowIfError(Unlocked([&] { return db->Drop(name); }));
          },
          context)
      .def("set_quota",
           [](const PyDb& self, uint64_t num_bytes) {
             const auto db = self.Get();
             ThrowIfError(Unlocked([&] { return db->SetQuota(num_bytes); }));
           })
      .def("declare_equal", OfFingerprints<&DB::DeclareEqual>, nb::arg("fingerprint_a"),
           nb::arg("fingerprint_b"))
      .def("revoke_equal", OfFingerprints<&DB::RevokeEqual>, nb::arg("fingerprint_a"),
           nb::arg("fingerprint_b"))
      .def("verify", Verify, context, nb::arg("progress").none())
      .def("compact", Compact, nb::arg("context"), nb::arg("segment_tokens"),
           nb::arg("progress").none())
      .def("build", Build, context, nb::arg("index"), nb::arg("progress").none())
      .def("wait_for_background", WaitForBackground, nb::arg("progress").none())
      .def(
          "machine",
          [](const PyDb& self, bool measure) {
            const auto db = self.Get();
            return ToDict(Unwrap(Unlocked([&] { return db->Machine(measure); })));
          },
          nb::arg("measure"))
      .def("stats",
           [](const PyDb& self) {
             const auto db = self.Get();
             return ToDict(Unwrap(Unlocked([&] { return db->Stats(); })));
           })
      .def("check_place",
           [](const PyDb& self) {
             const auto db = self.Get();
             ThrowIfError(Unlocked([&] { return db->CheckPlace(); }));
           })
      .def("close", &PyDb::Close)
      .def_prop_ro("closed", &PyDb::closed);
}

}  // namespace

void BindDb(nb::module_& module) {
  const auto context = nb::arg("context");
  BindPendingStore(module);
  nb::class_<PyDb> db(module, "DB", nb::is_final());
  db.def_static("open", Open, nb::arg("path"), nb::kw_only(), nb::arg("read_only"),
                nb::arg("create_if_missing"), nb::arg("plan"), nb::arg("query_sample"),
                nb::arg("dense_query_tokens"), nb::arg("num_threads"), nb::arg("host_memory_bytes"),
                nb::arg("background_builds"), nb::arg("background_threads"),
                nb::arg("measure_machine"), nb::arg("index"), nb::arg("kmeans_iterations"),
                nb::arg("roar_keys_per_query"), nb::arg("roar_max_degree"),
                nb::arg("roar_search_window"), nb::arg("max_training_queries"),
                nb::arg("grow_graphs"), nb::arg("import_segment_tokens"), nb::arg("custom_indexes"))
      .def("for_tenant",
           [](const PyDb& self, const std::string& name) {
             return PyDb(Unwrap(self.Get()->ForTenant(name)));
           })
      .def_prop_ro("tenant", [](const PyDb& self) { return self.Get()->tenant(); })
      .def("create_session", CreateSession, nb::arg("spec"), nb::arg("tokens"), nb::kw_only(),
           context, nb::arg("reuse"), nb::arg("truncated"), nb::arg("plan"),
           nb::arg("first_position"))
      .def("create_session_over", CreateSessionOver, nb::arg("spec"), nb::arg("contexts"),
           nb::kw_only(), nb::arg("plan"), nb::arg("first_position"))
      .def("explain_prefix", ExplainPrefix, nb::arg("spec"), nb::arg("tokens"), nb::kw_only(),
           context, nb::arg("reuse"), nb::arg("truncated"), nb::arg("plan"),
           nb::arg("first_position"))
      .def("check_room", CheckRoom, nb::arg("spec"), nb::arg("tokens"), nb::kw_only(),
           nb::arg("first_position"), nb::arg("checkpoint_tokens"))
      .def("store", Store, nb::arg("session"), nb::arg("tokens"), nb::kw_only(), nb::arg("name"),
           nb::arg("replace"), nb::arg("drop_base"), nb::arg("ttl").none(), nb::arg("pin"),
           nb::arg("text_layout"), nb::arg("title"), nb::arg("note"))
      .def("store_async", StoreAsync, nb::arg("session"), nb::arg("tokens"), nb::kw_only(),
           nb::arg("name"), nb::arg("replace"), nb::arg("drop_base"), nb::arg("ttl").none(),
           nb::arg("pin"), nb::arg("text_layout"), nb::arg("title"), nb::arg("note"))
      .def("import_context", Import, nb::arg("spec"), nb::arg("tokens"), nb::arg("layers"),
           nb::arg("queries"), nb::kw_only(), nb::arg("name"), nb::arg("replace"),
           nb::arg("ttl").none(), nb::arg("pin"))
      .def("find", Find, nb::arg("spec"), nb::arg("heads"), nb::arg("q"), nb::kw_only(),
           nb::arg("first_position"), nb::arg("limit"), nb::arg("contexts"),
           nb::arg("passage_tokens"), nb::arg("head_scores"));
  BindAdmin(&db);
}

}  // namespace attndb::python
