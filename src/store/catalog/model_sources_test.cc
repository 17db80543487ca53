// Goal:   a tenant's contexts know what their model is called and where it was, as the last session
//         that stored with it said; other tenants are told nothing; a catalog of before has
//         nothing.
// Method: one catalog with two tenants, opened again; a catalog of version 6; rows changed by SQL.
#include "store/catalog/model_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ModelSource kSmall = {.name = "SmolLM2 135M", .path = "/models/smollm2.gguf"};

class ModelSourcesTest : public CatalogTest {
 protected:
  void Publish(const std::vector<TokenId>& tokens, const ModelSource& source) {
    Published how;
    how.source = source;
    harness_.MustPublish(tokens, how);
  }
  Result<ModelSource> Source() { return harness_->owners()->SourceOf(tenant(), harness_.model()); }
  void Change(const char* sql) {
    harness_.Close();
    ATTNDB_ASSERT_OK(SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite)
                         .value()
                         ->Execute(sql));
  }
};

TEST_F(ModelSourcesTest, TheLastOneThatSaidIsKept) {
  EXPECT_EQ(Source().value(), ModelSource());
  Publish({1, 2}, kSmall);
  harness_.Reopen();
  EXPECT_EQ(Source().value(), kSmall);
  const ModelSource moved = {.name = kSmall.name, .path = "/elsewhere/smollm2.gguf"};
  Publish({1, 3}, moved);
  EXPECT_EQ(Source().value(), moved);
  Publish({1, 4}, ModelSource());
  EXPECT_EQ(Source().value(), moved) << "who says nothing takes nothing back";
}

TEST_F(ModelSourcesTest, OtherTenantsAreToldNothing) {
  Publish({1, 2}, kSmall);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tenant other, harness_->owners()->EnsureTenant("other"));
  EXPECT_EQ(harness_->owners()->SourceOf(other.id, harness_.model()).value(), ModelSource());
}

TEST_F(ModelSourcesTest, ACatalogOfBeforeHasNoneUntilAWriterAddsThem) {
  Publish({1, 2}, kSmall);
  Change((std::string(kDropNotes) +
          "; DROP TABLE text_layouts; DROP TABLE model_sources; PRAGMA user_version = 6")
             .c_str());
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_EQ(reader->owners()->SourceOf(tenant(), harness_.model()).value(), ModelSource());
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
  harness_.Reopen();
  EXPECT_EQ(Source().value(), ModelSource());
  Publish({1, 3}, kSmall);
  EXPECT_EQ(Source().value(), kSmall);
}

TEST_F(ModelSourcesTest, ARowThatNoWriterStoresIsFoundByVerifyAndHarmsNothing) {
  Publish({1, 2}, kSmall);
  Change("UPDATE model_sources SET name = 'a' || char(27) || 'b'");
  harness_.Reopen();
  EXPECT_EQ(Source().value(), ModelSource());
  EXPECT_THAT(harness_->Verify().value(), ElementsAre(HasSubstr("source.name")));
  Publish({1, 3}, kSmall);  // Mends it.
  EXPECT_EQ(Source().value(), kSmall);
}

}  // namespace
}  // namespace attndb::store
