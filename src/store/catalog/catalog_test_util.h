// A store's catalog without its segments: publishes contexts as Publisher does, with made-up files.
//
// Threads: one.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_TEST_UTIL_H_
#define ATTNDB_STORE_CATALOG_CATALOG_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/catalog/catalog.h"
#include "testing/temp_dir.h"

namespace attndb::store {

// A test's description of a context to publish; all other fields follow from it.
struct Published {
  std::string name = {};
  bool replace = false;
  ContextId base = ContextId::kNone;
  uint64_t num_shared = 0;
  bool drop_base = false;
  std::optional<std::chrono::seconds> ttl = {};
  bool pin = false;
  int64_t first_position = 0;
  std::vector<Cut> cuts = {};
  std::vector<ContextId> evict = {};
  ModelSource source = {};
  TextLayout text_layout = {};
  std::string title = {};
  std::string note = {};
};

class CatalogHarness {
 public:
  // Uses a file system in memory, if the machine has one, because tests sync thousands of times. Or
  // uses `parent`.
  CatalogHarness() : CatalogHarness(nullptr) {}
  explicit CatalogHarness(const std::string& parent) : CatalogHarness(&parent) {}

  std::string path() const { return dir_.File("catalog.db"); }
  const std::string& dir() const { return dir_.path(); }

  // Closes and opens again. Ends the process on an error.
  void Reopen();
  void Close() { catalog_.reset(); }
  Result<std::unique_ptr<Catalog>> Open(bool read_only = false);

  Catalog& operator*() { return *catalog_; }
  Catalog* operator->() { return catalog_.get(); }

  TenantId tenant() const { return tenant_; }
  ModelId model() const { return model_; }
  const ModelSpec& spec() const { return spec_; }
  void set_tenant(TenantId tenant) { tenant_ = tenant; }
  void set_spec(const ModelSpec& spec);

  // Publishes one new segment for the tokens behind the shared ones, and the base's chain for
  // these.
  Result<PublishOutcome> Publish(const std::vector<TokenId>& tokens, const Published& options = {});
  // The context's id; ends the process on an error.
  ContextId MustPublish(const std::vector<TokenId>& tokens, const Published& options = {});

  PrefixQuery Query(const std::vector<TokenId>& tokens, int64_t first_position = 0) const {
    return {tenant_, &spec_, first_position, tokens};
  }
  // Ids of the segments that the catalog knows, ascending.
  std::vector<SegmentId> SegmentIds() const;
  std::optional<PrefixMatch> Longest(const std::vector<TokenId>& tokens,
                                     int64_t first_position = 0);

  // All data that the API returns, as text; the error if a call fails.
  static Result<std::string> Dump(Catalog& catalog, const ModelSpec& spec);

  int64_t now_us = 1'700'000'000'000'000;
  std::function<Status()> check_place;  // See CatalogOptions; null = the folder is there.

 private:
  explicit CatalogHarness(const std::string* parent);

  test::TempDir dir_;
  ModelSpec spec_;
  std::unique_ptr<Catalog> catalog_;
  TenantId tenant_ = TenantId::kNone;
  ModelId model_ = ModelId::kNone;
};

// A fresh catalog. Checks at the end of each test that the catalog is in order.
class CatalogTest : public ::testing::Test {
 protected:
  ~CatalogTest() override { EXPECT_EQ(harness_->Verify().value(), std::vector<std::string>()); }

  TenantId tenant() const { return harness_.tenant(); }
  ContextRecord Get(ContextId id) { return harness_->contexts()->Get(tenant(), id).value(); }

  CatalogHarness harness_;
};

std::vector<SegmentId> IdsOf(const std::vector<SegmentRecord>& segments);

// Reads and writes a catalog's file by hand.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& contents);
// Changes a closed catalog by SQL, as no writer would.
void ChangeRows(const std::string& path, const std::string& sql);
// Damages the first page of a table or an index.
void DamageRootPageOf(const std::string& path, const std::string& name);

// 0, 1, 2, ... from `first`.
std::vector<TokenId> Range(TokenId first, size_t num_tokens);

// Makes a catalog from before contexts had notes, except for its version number.
inline constexpr const char* kDropNotes =
    "DROP TABLE continuations; DROP TABLE context_notes; DROP TABLE context_titles";
// Makes a catalog from before tenants had numbers of their own, except for its version number.
inline constexpr const char* kDropNumbers =
    "DROP TABLE continuations; DROP TABLE context_notes; DROP TABLE context_titles; "
    "DROP TABLE text_layouts; DROP TABLE model_sources; "
    "DROP TABLE next_numbers; DROP TABLE segment_numbers; DROP TABLE context_numbers";
// Makes a catalog from before there were counters, except for its version number.
inline constexpr const char* kDropCounters =
    "DROP TABLE continuations; DROP TABLE context_notes; DROP TABLE context_titles; "
    "DROP TABLE text_layouts; DROP TABLE model_sources; "
    "DROP TABLE next_numbers; DROP TABLE segment_numbers; DROP TABLE context_numbers; "
    "DROP TABLE sound_tokens; DROP INDEX nodes_of_cuts; "
    "DROP INDEX contexts_by_access; DROP TABLE tenant_uses; DROP TABLE segment_uses";

ModelSpec TestSpec(const std::string& fingerprint = "weights");

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_TEST_UTIL_H_
