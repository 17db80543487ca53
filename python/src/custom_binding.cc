#include "python/src/custom_binding.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace attndb::python {
namespace {

namespace nb = nanobind;

// Objects that no code needs any more. Their references are released under the interpreter lock.
class LetGo {
 public:
  void Add(PyObject* object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    objects_.push_back(object);
  }
  // REQUIRES: the interpreter lock.
  void Release() {
    std::vector<PyObject*> objects;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* const object : objects) Py_DECREF(object);
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> objects_;  // Guarded by mutex_.
};

// Never destroyed, because threads may run after main has ended.
LetGo& Unneeded() {
  static LetGo* const kUnneeded = new LetGo;
  return *kUnneeded;
}

// A reference to a Python object that a thread without the interpreter lock may drop.
class Held {
 public:
  explicit Held(nb::object object) : object_(object.release().ptr()) {}
  ~Held() { Unneeded().Add(object_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  nb::handle get() const { return object_; }

 private:
  PyObject* const object_;
};

class PyObjectOfRows final : public CustomObject {
 public:
  PyObjectOfRows(nb::object object, uint64_t num_bytes)
      : object_(std::move(object)), num_bytes_(num_bytes) {}
  uint64_t memory_bytes() const override { return num_bytes_; }
  nb::handle object() const { return object_.get(); }

 private:
  const Held object_;
  const uint64_t num_bytes_;
};

template <typename T>
nb::bytes Bytes(std::span<const T> values) {
  return nb::bytes(values.data(), values.size_bytes());
}

// Returns the last line of the interpreter's output for the error.
Status StatusOf(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(error.type().attr("__name__"));
  try {
    const std::string value = nb::cast<std::string>(nb::str(error.value()));
    if (!value.empty()) text += ": " + value;
  } catch (const std::exception&) {  // Its own __str__ fails.
    PyErr_Clear();
  }
  return Status::InvalidArgument(text);
}

// REQUIRES: each element has the type's size.
template <typename T>
std::vector<T> Values(const nb::bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.c_str(), values.size() * sizeof(T));
  return values;
}

// The result of attndb._custom.Adapter.select for a q head: rows (part, begin, end) as int64, not
// negative, the estimate and its value.
using PySelection = std::tuple<nb::bytes, float, nb::bytes>;

CustomSelection ToSelection(const PySelection& given) {
  const std::vector<int64_t> numbers = Values<int64_t>(std::get<0>(given));
  CustomSelection selection;
  for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
    selection.ranges.push_back({static_cast<uint32_t>(numbers[i]),
                                static_cast<uint64_t>(numbers[i + 1]),
                                static_cast<uint64_t>(numbers[i + 2])});
  }
  selection.rest_lse = std::get<1>(given);
  selection.rest_value = Values<float>(std::get<2>(given));
  return selection;
}

class PyCustomIndex final : public CustomIndex {
 public:
  explicit PyCustomIndex(nb::object adapter) : adapter_(std::move(adapter)) {}

  Result<CustomObjectPtr> Build(const CustomRows& rows) const override {
    return Make("build", rows);
  }
  Result<CustomObjectPtr> Extend(const CustomRows& rows) const override {
    return Make("extend", rows);
  }

  Status Select(const CustomQuery& query, std::span<CustomSelection> selections) const override {
    const nb::gil_scoped_acquire locked;
    Unneeded().Release();
    try {
      nb::list parts;
      for (const CustomPart& part : query.parts) {
        parts.append(nb::make_tuple(static_cast<const PyObjectOfRows*>(part.object)->object(),
                                    part.num_rows, part.visible.begin, part.visible.end));
      }
      const nb::object given = adapter_.get().attr("select")(
          query.layer, query.kv_head, query.group_size, query.head_dim, query.v_head_dim,
          query.scale, query.soft_cap, Bytes(query.q), parts,
          std::vector<double>(query.values.begin(), query.values.end()), query.is_query, query.k);
      const auto heads = nb::cast<std::vector<PySelection>>(given);
      for (size_t i = 0; i < selections.size(); ++i) selections[i] = ToSelection(heads.at(i));
      return Status::Ok();
    } catch (const nb::python_error& error) {
      return StatusOf(error);
    }
  }

 private:
  Result<CustomObjectPtr> Make(const char* call, const CustomRows& rows) const {
    const nb::gil_scoped_acquire locked;
    Unneeded().Release();
    try {
      const nb::object made = adapter_.get().attr(call)(
          rows.layer, rows.kv_head, rows.num_rows, rows.head_dim, rows.v_head_dim, Bytes(rows.keys),
          Bytes(rows.values), Bytes(rows.queries), Bytes(rows.query_rows), rows.first_position,
          rows.scale);
      auto [object, num_bytes] = nb::cast<std::pair<nb::object, uint64_t>>(made);
      return CustomObjectPtr(std::make_shared<PyObjectOfRows>(std::move(object), num_bytes));
    } catch (const nb::python_error& error) {
      return StatusOf(error);
    }
  }

  const Held adapter_;
};

}  // namespace

std::vector<CustomIndexType> ToCustomIndexes(const std::vector<PyCustomType>& types) {
  Unneeded().Release();
  std::vector<CustomIndexType> made;
  for (const auto& [name, keys, adapter] : types) {
    CustomIndexType type = {.name = name, .keys = {}, .index = nullptr};
    for (const auto& [key, min, max, whole, fallback] : keys) {
      type.keys.push_back(
          {.name = key, .min = min, .max = max, .whole = whole, .fallback = fallback});
    }
    type.index = std::make_shared<const PyCustomIndex>(adapter);
    made.push_back(std::move(type));
  }
  return made;
}

}  // namespace attndb::python
