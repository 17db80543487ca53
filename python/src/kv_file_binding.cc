#include "python/src/kv_file_binding.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/kv_file.h"
#include "python/src/arrays.h"
#include "python/src/db_binding.h"
#include "python/src/path.h"
#include "python/src/results.h"
#include "python/src/spec.h"
#include "python/src/status_error.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

std::unique_ptr<KvFileReader> Open(const nb::bytes& path) {
  const std::string file = PathFrom(path);
  return std::make_unique<KvFileReader>(Unwrap(Unlocked([&] { return KvFileReader::Open(file); })));
}

Dict Contents(const KvFileReader& self) {
  const KvFileContents& contents = self.contents();
  Dict dict;
  dict["spec"] = SpecToPython(contents.spec);
  dict["tokens"] = contents.tokens;
  dict["first_position"] = contents.first_position;
  dict["cuts"] = ToList(contents.cuts);
  dict["layers"] = contents.layers;
  dict["num_queries"] = contents.num_queries;
  dict["query_dtype"] = DTypeName(contents.query_dtype);
  dict["notes"] = contents.notes;
  return dict;
}

void ReadKv(const KvFileReader& self, LayerId layer, uint64_t begin, uint64_t end, nb::handle k,
            nb::handle v) {
  const OutputArray k_array(k, "k");
  const OutputArray v_array(v, "v");
  ThrowIfError(Unlocked([&] {
    return self.ReadKv(layer, {begin, end}, k_array.view(), v_array.view());
  }));
}

void ReadQueries(const KvFileReader& self, LayerId layer, uint64_t begin, uint64_t end,
                 nb::handle q) {
  const OutputArray q_array(q, "q");
  ThrowIfError(Unlocked([&] { return self.ReadQueries(layer, {begin, end}, q_array.view()); }));
}

std::unique_ptr<KvFileWriter> Create(const nb::bytes& path, nb::handle spec,
                                     std::vector<TokenId> tokens, int64_t first_position,
                                     const CutList& cuts, std::vector<LayerId> layers,
                                     uint64_t num_queries, nb::handle query_dtype,
                                     std::map<std::string, std::string> notes) {
  const KvFileContents contents = {.spec = SpecFromPython(spec),
                                   .tokens = std::move(tokens),
                                   .first_position = first_position,
                                   .cuts = CutsFromPython(cuts),
                                   .layers = std::move(layers),
                                   .num_queries = num_queries,
                                   .query_dtype = DTypeFromPython(query_dtype),
                                   .notes = std::move(notes)};
  const std::string file = PathFrom(path);
  return std::make_unique<KvFileWriter>(
      Unwrap(Unlocked([&] { return KvFileWriter::Create(file, contents); })));
}

void WriteLayer(KvFileWriter& self, LayerId layer, nb::handle k, nb::handle v, nb::handle q) {
  const InputArray k_array(k, "k");
  const InputArray v_array(v, "v");
  std::optional<InputArray> q_array;
  if (!q.is_none()) q_array.emplace(q, "q");
  const TensorView queries = q_array.has_value() ? q_array->view() : TensorView{};
  ThrowIfError(
      Unlocked([&] { return self.WriteLayer(layer, k_array.view(), v_array.view(), queries); }));
}

void Finish(KvFileWriter& self) {
  ThrowIfError(Unlocked([&] { return self.Finish(); }));
}

int64_t Import(const PyDb& self, const nb::bytes& path, const nb::bytes& fingerprint,
               const std::string& name, bool replace, std::optional<int64_t> ttl, bool pin) {
  const auto db = self.Get();
  const KvFileImportOptions options = {.store = ToStoreOptions(name, replace, false, ttl, pin),
                                       .fingerprint = {fingerprint.c_str(), fingerprint.size()}};
  const std::string file = PathFrom(path);
  auto id = Unlocked([&] { return ImportKvFile(*db, file, options); });
  return static_cast<int64_t>(Unwrap(std::move(id)));
}

void Export(const PyDb& self, const std::string& context, const nb::bytes& path) {
  const auto db = self.Get();
  const std::string file = PathFrom(path);
  ThrowIfError(Unlocked([&] { return ExportKvFile(*db, context, file); }));
}

}  // namespace

void BindKvFile(nb::module_& module) {
  nb::class_<KvFileReader>(module, "KvFileReader", nb::is_final())
      .def_static("open", Open, nb::arg("path"))
      .def("contents", Contents)
      .def("read_kv", ReadKv, nb::arg("layer"), nb::arg("begin"), nb::arg("end"), nb::arg("k"),
           nb::arg("v"))
      .def("read_queries", ReadQueries, nb::arg("layer"), nb::arg("begin"), nb::arg("end"),
           nb::arg("q"));
  nb::class_<KvFileWriter>(module, "KvFileWriter", nb::is_final())
      .def_static("create", Create, nb::arg("path"), nb::arg("spec"), nb::arg("tokens"),
                  nb::kw_only(), nb::arg("first_position"), nb::arg("cuts"), nb::arg("layers"),
                  nb::arg("num_queries"), nb::arg("query_dtype"), nb::arg("notes"))
      .def("write_layer", WriteLayer, nb::arg("layer"), nb::arg("k"), nb::arg("v"),
           nb::arg("q").none())
      .def("finish", Finish);
  module.def("import_kv_file", Import, nb::arg("db"), nb::arg("path"), nb::kw_only(),
             nb::arg("fingerprint"), nb::arg("name"), nb::arg("replace"), nb::arg("ttl").none(),
             nb::arg("pin"));
  module.def("export_kv_file", Export, nb::arg("db"), nb::arg("context"), nb::arg("path"));
}

}  // namespace attndb::python
