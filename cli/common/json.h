// JSON of the command line. nlohmann's parser, its writer and its initializer lists are templates
// that take seconds to compile in each source; json.cc has them for all commands.
//
//   env->PrintJson({{"context", name}, {"pinned", true}});
//   Json json = JsonObject({{"file", file}, {"bytes", bytes}});
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_JSON_H_
#define ATTNDB_CLI_COMMON_JSON_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attndb::cli {

using Json = nlohmann::ordered_json;

// A field's value. Refers to texts, lists and trees, which must outlive it. Its destructor is
// trivial, so the compiler emits no clean-up for the fields of a table.
class JsonValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a field is written as {"name", value}.
  JsonValue(std::same_as<bool> auto value) : kind_(Kind::kBool), bool_(value) {}
  JsonValue(std::signed_integral auto value) : kind_(Kind::kSigned), signed_(value) {}
  JsonValue(std::unsigned_integral auto value) requires(!std::same_as<decltype(value), bool>)
      : kind_(Kind::kUnsigned), unsigned_(value) {}
  JsonValue(std::floating_point auto value) : kind_(Kind::kReal), real_(value) {}
  JsonValue(std::string_view text) : kind_(Kind::kText), text_(text) {}
  JsonValue(const std::string& text) : kind_(Kind::kText), text_(text) {}
  JsonValue(const char* text) : kind_(Kind::kText), text_(text) {}
  JsonValue(const std::vector<std::string>& list) : kind_(Kind::kTexts), texts_(&list) {}
  JsonValue(const Json& tree) : kind_(Kind::kTree), tree_(&tree) {}
  // NOLINTEND(google-explicit-constructor)

  Json Tree() const;

 private:
  enum class Kind : uint8_t { kBool, kSigned, kUnsigned, kReal, kText, kTexts, kTree };

  Kind kind_;
  // clang-tidy takes members of an anonymous union for public ones.
  // NOLINTBEGIN(readability-identifier-naming)
  union {
    bool bool_;
    int64_t signed_;
    uint64_t unsigned_;
    double real_;
    std::string_view text_;
    const std::vector<std::string>* texts_;  // Not owned.
    const Json* tree_;                       // Not owned.
  };
  // NOLINTEND(readability-identifier-naming)
};

struct JsonField {
  const char* name;
  JsonValue value;
};

// Returns the same object as Json({{"name", value}, ...}).
Json JsonObject(std::initializer_list<JsonField> fields);

// Returns the tree of a text that another program wrote; none if the text is not JSON.
std::optional<Json> ReadJson(std::string_view text);

// Returns the tree of a text that attndb's library wrote. A text that is not JSON is a bug: an
// exception ends the program, which says so (program.cc).
Json ReadOwnJson(std::string_view text);

// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string Dump(const Json& json);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_JSON_H_
