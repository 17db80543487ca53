// Goal:   types that plans could not tell apart, or not be checked by, are refused at Open, which
//         says which and why; nothing of a type is built ahead or stored.
// Method: opens with one thing wrong at a time.
#include "api/custom_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::TempDir;
using ::testing::HasSubstr;

class NothingSelected final : public CustomIndex {
 public:
  Result<CustomObjectPtr> Build(const CustomRows&) const override {
    return Status::Unsupported("nothing to build");
  }
  Status Select(const CustomQuery&, std::span<CustomSelection>) const override {
    return Status::Ok();
  }
};

CustomIndexType Type(const std::string& name, std::vector<CustomKey> keys = {}) {
  return {.name = name, .keys = std::move(keys), .index = std::make_shared<NothingSelected>()};
}

class CustomTypesTest : public ::testing::Test {
 protected:
  Status OpenWith(std::vector<CustomIndexType> types, const std::string& index = "") {
    DBOptions options;
    options.custom_indexes = std::move(types);
    options.index = index;
    return DB::Open(dir_.File("store"), options).status();
  }
  void ExpectRefused(std::vector<CustomIndexType> types, const std::string& text) {
    EXPECT_THAT(OpenWith(std::move(types)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(text)));
  }

  const TempDir dir_ = TempDir::InMemory();
};

TEST_F(CustomTypesTest, NamesAreWordsThatAreNotTaken) {
  ATTNDB_EXPECT_OK(OpenWith({Type("mine"), Type("_Mine2")}));
  for (const char* name : {"", "two words", "2nd", "a-b", "ä", "a(b"}) {
    ExpectRefused({Type(name)}, "is no word");
  }
  ExpectRefused({Type(std::string(33, 'a'))}, "is no word");
  for (const char* name : {"full", "topk", "flat", "quest", "alaya", "planes", "layers"}) {
    ExpectRefused({Type(name)}, std::string("custom index '") + name + "': the name is one of");
  }
  ExpectRefused({Type("mine"), Type("mine")}, "custom index 'mine' is given twice");
}

TEST_F(CustomTypesTest, KeysHaveANameOfTheirOwnARangeAndAFallbackInIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ATTNDB_EXPECT_OK(OpenWith({Type("mine", {{.name = "x", .min = -1, .max = 1}})}));
  ExpectRefused({Type("mine", {{.name = "k", .max = 1}})}, "key 'k' is one of attndb's");
  ExpectRefused({Type("mine", {{.name = "a b", .max = 1}})}, "key 'a b' is no word");
  ExpectRefused({Type("mine", {{.name = "x", .min = 2, .max = 1}})}, "finite min <= max");
  ExpectRefused({Type("mine", {{.name = "x", .min = nan, .max = 1}})}, "finite min <= max");
  ExpectRefused({Type("mine", {{.name = "x", .max = 1, .fallback = 2}})}, "fallback in its range");
  ExpectRefused({Type("mine", {{.name = "x", .max = 1, .fallback = nan}})},
                "fallback in its range");
  ExpectRefused({Type("mine", {{.name = "x", .min = -1, .max = 1, .whole = true}})},
                "expected whole numbers");
  ExpectRefused({Type("mine", {{.name = "x", .max = 1}, {.name = "x", .max = 1}})},
                "key 'x' is given twice");
  ExpectRefused({Type("mine", std::vector<CustomKey>(5, {.name = "x", .max = 1}))},
                "at most 4 keys, found 5");
}

TEST_F(CustomTypesTest, TypesHaveAnIndexAndAreNotTooMany) {
  ExpectRefused({{.name = "mine", .keys = {}, .index = nullptr}}, "expected an index, found null");
  std::vector<CustomIndexType> types;
  for (size_t i = 0; i <= CustomIndexType::kMaxTypes; ++i) {
    types.push_back(Type("mine" + std::to_string(i)));
  }
  ExpectRefused(types, "at most 16 types, found 17");
  types.pop_back();
  ATTNDB_EXPECT_OK(OpenWith(types));
}

TEST_F(CustomTypesTest, NothingIsBuiltAhead) {
  EXPECT_THAT(OpenWith({Type("mine")}, "mine"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("is a custom one")));
}

}  // namespace
}  // namespace attndb
