#include "python/src/session_binding.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/options.h"
#include "attndb/session_batch.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "python/src/arrays.h"
#include "python/src/results.h"
#include "python/src/status_error.h"

namespace attndb::python {

PySession::Use::Use(PySession& owner, Kind kind) : owner_(&owner) {
  int inside = owner.inside_.load(std::memory_order_relaxed);
  do {
    const bool free = inside == 0 || (kind == Kind::kPart && inside > 0);
    if (!free) {
      throw StatusError(Status::FailedPrecondition(
          "session: in use by another thread; wait for it, or for its store_async"));
    }
  } while (
      !owner.inside_.compare_exchange_weak(inside, kind == Kind::kPart ? inside + 1 : kAloneInside,
                                           std::memory_order_acquire, std::memory_order_relaxed));
  if (owner.session_.has_value()) return;
  owner.inside_.store(0, std::memory_order_release);
  throw StatusError(Status::FailedPrecondition("session: closed"));
}

PySession::Use::~Use() {
  if (owner_ == nullptr) return;
  int inside = owner_->inside_.load(std::memory_order_relaxed);
  while (!owner_->inside_.compare_exchange_weak(inside, inside == kAloneInside ? 0 : inside - 1,
                                                std::memory_order_release,
                                                std::memory_order_relaxed)) {
  }
}

PySession::~PySession() {
  if (!session_.has_value()) return;
  const nanobind::gil_scoped_release unlocked;
  session_.reset();
}

void PySession::Close() {
  if (closed()) return;
  const Use use(*this);
  {
    const nanobind::gil_scoped_release unlocked;
    session_.reset();
  }
  closed_.store(true, std::memory_order_relaxed);
  ForgetParts();
}

void PySession::CheckMayKeep(uint32_t part) const {
  const auto found = part_arrays_.find(part);
  if (found == part_arrays_.end() || found->second.size() < kMaxKept) return;
  throw StatusError(Status::FailedPrecondition(
      "part " + std::to_string(part) + " failed " + std::to_string(kMaxKept) +
      " times; give the call up with crop(num_tokens) or reset()"));
}

void PySession::KeepPart(uint32_t part, std::shared_ptr<const void> arrays, bool is_of_call) {
  std::vector<std::shared_ptr<const void>>& kept = part_arrays_[part];
  std::vector<std::shared_ptr<const void>> earlier;  // Destroyed last, because this may run Python.
  if (is_of_call) earlier.swap(kept);
  kept.push_back(std::move(arrays));
}

namespace {

namespace nb = nanobind;
using Kind = PySession::Use::Kind;

void Append(PySession& self, LayerId layer, nb::handle k, nb::handle v) {
  const InputArray k_array(k, "k");
  const InputArray v_array(v, "v");
  const PySession::Use session(self);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->Append(layer, k_array.view(), v_array.view());
  }
  ThrowIfError(std::move(status));
}

void Attend(PySession& self, LayerId layer, nb::handle q, nb::handle out, nb::handle lse) {
  const InputArray q_array(q, "q");
  const OutputArray out_array(out, "out");
  const LseArray lse_array(lse, q_array.view());
  const PySession::Use session(self);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->Attend(layer, q_array.view(), out_array.view(), lse_array.data());
  }
  ThrowIfError(std::move(status));
}

// Whether the call has surely accepted a part with this status. A refused part has one of the two
// codes. A part that ran may have them, too, from a custom index.
bool IsOfCall(const Status& status) {
  return status.code() != StatusCode::kInvalidArgument &&
         status.code() != StatusCode::kFailedPrecondition;
}

void AttendPart(PySession& self, LayerId layer, nb::handle q, nb::handle out, nb::handle lse,
                uint32_t part, uint32_t num_parts) {
  struct Arrays {
    InputArray q;
    OutputArray out;
    LseArray lse;
  };
  InputArray q_array(q, "q");
  OutputArray out_array(out, "out");
  LseArray lse_array(lse, q_array.view());
  const auto arrays = std::make_shared<const Arrays>(
      Arrays{std::move(q_array), std::move(out_array), std::move(lse_array)});
  const PySession::Use session(self, Kind::kPart);
  self.CheckMayKeep(part);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->AttendPart(layer, arrays->q.view(), arrays->out.view(), arrays->lse.data(),
                                 part, num_parts);
  }
  // A part with a larger number was refused.
  if (part < num_parts && part < DBOptions::kMaxThreads) {
    self.KeepPart(part, arrays, IsOfCall(status));
  }
  ThrowIfError(std::move(status));
}

void Update(PySession& self, nb::handle q, nb::handle k, nb::handle v, LayerId layer) {
  const InputArray q_array(q, "q");
  const InputArray k_array(k, "k");
  const InputArray v_array(v, "v");
  const PySession::Use session(self);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->Update(q_array.view(), k_array.view(), v_array.view(), layer);
  }
  ThrowIfError(std::move(status));
}

// Returns (tokens, scores) of each q head, as bytes of uint32 and float32. Python makes arrays.
using FoundBytes = nb::typed<nb::tuple, nb::bytes, nb::bytes>;

nb::typed<nb::list, FoundBytes> Search(PySession& self, LayerId layer, nb::handle q) {
  const InputArray q_array(q, "q");
  const PySession::Use session(self);
  std::optional<Result<std::vector<CriticalTokens>>> found;
  {
    const nb::gil_scoped_release unlocked;
    found.emplace(session->Search(layer, q_array.view()));
  }
  nb::typed<nb::list, FoundBytes> heads;
  for (const CriticalTokens& head : Unwrap(*std::move(found))) {
    heads.append(nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(head.tokens.data()),
                                          head.tokens.size() * sizeof(uint32_t)),
                                nb::bytes(reinterpret_cast<const char*>(head.scores.data()),
                                          head.scores.size() * sizeof(float))));
  }
  return heads;
}

void ReadKv(PySession& self, LayerId layer, uint64_t begin, uint64_t end, nb::handle k,
            nb::handle v) {
  const OutputArray k_array(k, "k");
  const OutputArray v_array(v, "v");
  const PySession::Use session(self);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->ReadKv(layer, {begin, end}, k_array.view(), v_array.view());
  }
  ThrowIfError(std::move(status));
}

// Returns code and message of each session's error, or None.
nb::typed<nb::list, nb::any> AttendSessions(const std::vector<PySession*>& sessions,
                                            const std::vector<int64_t>& num_rows, LayerId layer,
                                            nb::handle q, nb::handle out, nb::handle lse) {
  const InputArray q_array(q, "q");
  const OutputArray out_array(out, "out");
  const LseArray lse_array(lse, q_array.view());
  if (sessions.size() != num_rows.size()) {
    throw StatusError(Status::InvalidArgument(
        "num_rows: expected one for each of " + std::to_string(sessions.size()) +
        " sessions, found " + std::to_string(num_rows.size())));
  }
  std::deque<PySession::Use> uses;
  std::vector<Session*> pointers;
  for (PySession* const session : sessions) {
    uses.emplace_back(*session);
    pointers.push_back(&*uses.back());
  }
  Status status;
  std::vector<Status> statuses;
  {
    const nb::gil_scoped_release unlocked;
    status = AttendBatch(pointers, num_rows, layer, q_array.view(), out_array.view(),
                         lse_array.data(), &statuses);
  }
  ThrowIfError(std::move(status));
  nb::typed<nb::list, nb::any> errors;
  for (const Status& each : statuses) {
    errors.append(each.ok() ? nb::none()
                            : nb::object(nb::make_tuple(static_cast<size_t>(each.code()),
                                                        std::string(each.message()))));
  }
  return errors;
}

const LayerSpec& Layer(const PySession::Use& session, LayerId layer) {
  const std::vector<LayerSpec>& layers = session->spec().layers;
  if (layer >= layers.size()) {
    throw StatusError(Status::InvalidArgument("layer " + std::to_string(layer) +
                                              ": the model has " + std::to_string(layers.size())));
  }
  return layers[layer];
}

void Crop(PySession& self, uint64_t num_tokens) {
  const PySession::Use session(self);
  ThrowIfError(session->Crop(num_tokens));
  self.ForgetParts();
}

void Reset(PySession& self) {
  const PySession::Use session(self);
  session->Reset();
  self.ForgetParts();
}

void SetFilter(PySession& self, const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
  std::vector<TokenRange> filter;
  for (const auto& [begin, end] : ranges) filter.push_back({begin, end});
  const PySession::Use session(self);
  ThrowIfError(session->SetFilter(filter));
}

void DropOldest(PySession& self, uint64_t n, uint64_t keep_first,
                const std::vector<std::pair<uint64_t, uint64_t>>& keep, bool sink) {
  DropOptions options = {.keep_first = keep_first, .keep = {}, .sink = sink};
  for (const auto& [begin, end] : keep) options.keep.push_back({begin, end});
  const PySession::Use session(self);
  ThrowIfError(session->DropOldest(n, options));
}

std::vector<std::pair<uint64_t, uint64_t>> HeaviestTokens(PySession& self, uint64_t begin,
                                                          uint64_t end, uint64_t num_tokens) {
  const PySession::Use session(self);
  Result<std::vector<TokenRange>> found = std::vector<TokenRange>();
  {
    const nb::gil_scoped_release unlocked;
    found = session->HeaviestTokens({begin, end}, num_tokens);
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const TokenRange& range : Unwrap(std::move(found))) {
    ranges.emplace_back(range.begin, range.end);
  }
  return ranges;
}

void AwaitDerived(PySession& self, LayerId layer) {
  const PySession::Use session(self);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = session->AwaitDerived(layer);
  }
  ThrowIfError(status);
}

std::unique_ptr<PySession> Fork(PySession& self) {
  const PySession::Use session(self);
  return std::make_unique<PySession>(Unwrap(session->Fork()));
}

void SetPlan(PySession& self, const std::string& plan) {
  const PySession::Use session(self);
  ThrowIfError(session->SetPlan(plan));
}

}  // namespace

void BindSession(nb::module_& module) {
  using Use = PySession::Use;
  nb::class_<PySession>(module, "Session", nb::is_final())
      .def("append", Append, nb::arg("layer"), nb::arg("k").none(), nb::arg("v").none())
      .def("attend", Attend, nb::arg("layer"), nb::arg("q").none(), nb::arg("out").none(),
           nb::arg("lse").none())
      .def("attend_part", AttendPart, nb::arg("layer"), nb::arg("q").none(), nb::arg("out").none(),
           nb::arg("lse").none(), nb::arg("part"), nb::arg("num_parts"))
      .def("update", Update, nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(),
           nb::arg("layer"))
      .def("search", Search, nb::arg("layer"), nb::arg("q").none())
      .def("read_kv", ReadKv, nb::arg("layer"), nb::arg("begin"), nb::arg("end"),
           nb::arg("k").none(), nb::arg("v").none())
      .def("num_kv_heads",
           [](PySession& self, LayerId layer) { return Layer(Use(self), layer).num_kv_heads; })
      .def("head_dim",
           [](PySession& self, LayerId layer) { return Layer(Use(self), layer).head_dim; })
      .def("v_head_dim",
           [](PySession& self, LayerId layer) { return Layer(Use(self), layer).v_head_dim; })
      .def_prop_ro("num_tokens", [](PySession& self) { return Use(self)->num_tokens(); })
      .def_prop_ro("num_reused", [](PySession& self) { return Use(self)->num_reused(); })
      .def_prop_ro("context_id",
                   [](PySession& self) { return static_cast<int64_t>(Use(self)->context_id()); })
      .def_prop_ro("contexts",
                   [](PySession& self) {
                     nb::typed<nb::list, Dict> list;
                     const Use session(self);  // The session owns the list.
                     for (const SessionContext& context : session->contexts()) {
                       list.append(ToDict(context));
                     }
                     return list;
                   })
      .def_prop_ro("next_position", [](PySession& self) { return Use(self)->next_position(); })
      .def_prop_ro("memory_bytes", [](PySession& self) { return Use(self)->memory_bytes(); })
      .def("crop", Crop, nb::arg("num_tokens"))
      .def("set_filter", SetFilter, nb::arg("ranges"))
      .def("drop_oldest", DropOldest, nb::arg("n"), nb::arg("keep_first"), nb::arg("keep"),
           nb::arg("sink"))
      .def("heaviest_tokens", HeaviestTokens, nb::arg("begin"), nb::arg("end"),
           nb::arg("num_tokens"))
      .def_prop_ro("num_dropped", [](PySession& self) { return Use(self)->num_dropped(); })
      .def_prop_ro("cuts", [](PySession& self) { return ToList(Use(self)->cuts()); })
      .def(
          "rebase",
          [](PySession& self, int64_t position) { ThrowIfError(Use(self)->Rebase(position)); },
          nb::arg("position"))
      .def("await_derived", AwaitDerived, nb::arg("layer"))
      .def(
          "awaits_derived",
          [](PySession& self, LayerId layer) { return Use(self)->awaits_derived(layer); },
          nb::arg("layer"))
      .def("fork", Fork)
      .def("reset", Reset)
      .def("set_plan", SetPlan, nb::arg("plan"))
      .def("explain", [](PySession& self) { return ToDict(Use(self)->Explain()); })
      .def("explain_layer",
           [](PySession& self, LayerId layer) { return ToDict(Unwrap(Use(self)->Explain(layer))); })
      .def("close", &PySession::Close)
      .def_prop_ro("closed", &PySession::closed);
  module.def("attend_batch", AttendSessions, nb::arg("sessions"), nb::arg("num_rows"),
             nb::arg("layer"), nb::arg("q").none(), nb::arg("out").none(), nb::arg("lse").none());
}

}  // namespace attndb::python
