// Goal:   work for all heads of a layer or of a run is done for each of them. Sizes are sums over
//         heads, layers are reported in order, and every error of a file is returned.
// Method: kinds of a few bytes, or of so many that they fill a writer's buffer, over a segment of
//         two layers, the second of which has a window.
#include "derived/kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "derived/derived_test_util.h"
#include "storage/vfs/format.h"
#include "testing/fault_file_system.h"

namespace attndb::derived {
namespace {

using test::FailsWith;
using test::FakeStore;
using test::FirstBytesKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KindTest : public ::testing::Test {
 protected:
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  FakeStore store_{&budget_};
  const FirstBytesKind kind_{FirstBytesKind::Of("first")};
};

TEST_F(KindTest, SizesAreSumsOverHeads) {
  EXPECT_EQ(kind_.ObjectBytes(store_.segment(), store_.spec()), 2 * 2 * FirstBytesKind::kBytes);
  // The one part of a head may begin and end inside a granule.
  EXPECT_EQ(kind_.MemoryBytes(store_.segment(), 0, store_.spec().layers[0]),
            2 * (FirstBytesKind::kBytes + 2 * storage::kGranuleBytes));
}

TEST_F(KindTest, LayersThatAreWrittenAreToldOfInOrder) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer,
                              store_.files().Create(store_.segment(), kind_, 1, nullptr));
  std::vector<LayerId> layers;
  ATTNDB_EXPECT_OK(kind_.Write(store_.segment(), store_.spec(), nullptr, writer.get(),
                               [&](LayerId layer) { layers.push_back(layer); }));
  EXPECT_THAT(layers, ElementsAre(0, 1));
}

TEST_F(KindTest, ABuildThatIsCancelledBeginsNoHead) {
  int num_built = 0;
  const FirstBytesKind kind(FirstBytesKind::Of("first"), [&](const HeadSource&) {
    ++num_built;
    return Status::Ok();
  });
  std::atomic<bool> cancel = true;
  const LayerSpec& spec = store_.spec().layers[0];
  EXPECT_THAT(kind.BuildLayer(store_.segment(), 0, spec, {.cancel = &cancel}),
              FailsWith(StatusCode::kCancelled, HasSubstr("first of layer 0")));
  EXPECT_EQ(num_built, 0);
  cancel = false;
  ATTNDB_EXPECT_OK(kind.BuildLayer(store_.segment(), 0, spec, {.cancel = &cancel}));
  EXPECT_EQ(num_built, 2);
}

// The flag is set after the first head. The second is not begun, and the first can be kept.
TEST_F(KindTest, AWriteThatIsCutShortIsTakenOverByTheNext) {
  std::atomic<bool> cancel = false;
  std::vector<std::pair<LayerId, uint32_t>> built;
  FirstBytesKind::Traits traits = FirstBytesKind::Of("first");
  traits.begun = "first_cut";
  const FirstBytesKind kind(traits, [&](const HeadSource& source) {
    built.emplace_back(source.layer, source.kv_head);
    cancel = built.size() == 1;
    return Status::Ok();
  });
  const auto write = [&](storage::CompanionWriter* writer, const storage::Companion* begun) {
    return kind.Write(
        store_.segment(), store_.spec(), nullptr, writer, [](LayerId) {}, nullptr, begun);
  };
  ObjectRecord record = {.kind = "first_cut", .generation = 1};
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer,
                                store_.files().Create(store_.segment(), kind, 1, &cancel));
    EXPECT_THAT(write(writer.get(), nullptr),
                FailsWith(StatusCode::kCancelled, HasSubstr("first of layer 0")));
    EXPECT_EQ(writer->num_filled(), 1u);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto written, writer->FinishBegun("first_cut"));
    record.root_hash = written.root_hash;
  }
  EXPECT_THAT(built, ElementsAre(std::pair(0u, 0u)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto begun,
                              store_.files().Open(store_.segment(), kind, record));
  EXPECT_EQ(begun->num_rows({0, 0, 0}), FakeStore::kTokens);
  EXPECT_EQ(begun->num_rows({0, 1, 0}), 0u);
  cancel = false;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer,
                              store_.files().Create(store_.segment(), kind, 2, &cancel));
  ATTNDB_EXPECT_OK(write(writer.get(), begun.get()));
  EXPECT_THAT(built, ElementsAre(std::pair(0u, 0u), std::pair(0u, 1u)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto written, writer->Finish());
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto whole,
      store_.files().Open(store_.segment(), kind,
                          {.kind = "first", .generation = 2, .root_hash = written.root_hash}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<Head> heads,
                              kind.ReadLayer(*whole, store_.segment(), 0, store_.spec().layers[0]));
  for (const uint32_t head : {0u, 1u}) {
    EXPECT_EQ(FirstBytesKind::BytesOf(heads[head]), store_.ExpectedOf(head));
  }
}

// A kind whose heads have more bytes than an object's writer holds back.
class LargeKind final : public Kind {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr size_t kBytes = size_t{600} << 10;

  LargeKind() : Kind(FirstBytesKind::Of("large")) {}
  uint64_t HeadBytes(const storage::KvRun&, LayerId, const LayerSpec&) const override {
    return kBytes;
  }
  Result<BuiltHead> Build(const HeadSource& source) const override {
    const auto owned = Own(Bytes(kBytes));
    return BuiltHead{{.owner = owned}, {owned->object}, source.run->num_tokens()};
  }
  Result<Head> Parse(HeadParts parts) const override { return Status::Unsupported(parts.name); }
};

// The file does not remember the error.
TEST_F(KindTest, AWriteThatFailsOnceFailsTheObject) {
  test::FaultFileSystem faults(&store_.file_system());
  const ObjectFiles files(&faults, "segments", {});
  const LargeKind kind;
  const uint64_t first_buffer = 3;  // After a file was created, and room for its head.
  faults.SetPlan({.fail_at = first_buffer, .removes_fail = false, .forgets = true});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, files.Create(store_.segment(), kind, 1, nullptr));
  EXPECT_THAT(kind.Write(store_.segment(), store_.spec(), nullptr, writer.get(), [](LayerId) {}),
              FailsWith(StatusCode::kIoError, HasSubstr("injected fault: append")));
  EXPECT_EQ(faults.num_operations(), first_buffer) << "the writer went on";
}

}  // namespace
}  // namespace attndb::derived
