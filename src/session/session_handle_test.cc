// Goal:   after a background Store a session moves to the stored segments at once if no call is
//         using it, otherwise when the last call ends. (No move inside a step:
//         background_merge_test.cc.)
// Method: a toy model; Stores that ended behind a session; other holders of the session.
#include "session/session_handle.h"

#include <gtest/gtest.h>

#include "api/database.h"
#include "api/db_test_util.h"

namespace attndb::internal {
namespace {

using test::ToyModel;
using Tokens = std::vector<TokenId>;

class SessionHandleTest : public ::testing::Test {
 protected:
  SessionHandleTest() : dir_(test::TempDir::InMemory()) {
    database_ =
        *Database::Open(dir_.File("store"), {.measure_machine = false}, storage::PosixFileSystem());
    handle_.emplace(*database_->OpenSession("t", model_.spec(), Tokens{1}, 0, {}));
    list_ = handle_->InUse()->parts().sessions;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) Append(layer, 0);
  }
  ~SessionHandleTest() override { handle_.reset(); }

  // The layer's K and V of all tokens, from that position on.
  void Append(LayerId layer, uint64_t position) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const std::vector<float> k = model_.Keys(layer, tokens_, position);
    const std::vector<float> v = model_.Values(layer, tokens_, position);
    ATTNDB_ASSERT_OK(
        handle_->InUse()->Append(layer, test::ViewOf(k, shape.num_kv_heads, shape.head_dim),
                                 test::ViewOf(v, shape.num_kv_heads, shape.v_head_dim)));
  }
  // Stores what the session holds, and returns when it is durable. The session has not moved yet.
  void StoreBehind() {
    const auto pending = database_->StoreAsync(handle_->InUse().get(), tokens_, {.name = "a"});
    ATTNDB_ASSERT_OK(pending.status());
    ATTNDB_ASSERT_OK(pending->get().status());
    ASSERT_FALSE(HasMoved());
  }
  bool HasMoved() { return handle_->InUse()->chain().num_tokens() == tokens_.size(); }

  const Tokens tokens_ = ToyModel::Tokens(100, 1);
  const ToyModel model_;
  const test::TempDir dir_;
  std::shared_ptr<Database> database_;
  std::optional<SessionHandle> handle_;
  SessionList* list_ = nullptr;
};

TEST_F(SessionHandleTest, MovesAnIdleSession) {
  StoreBehind();
  list_->MoveIdle();
  EXPECT_TRUE(HasMoved());
}

// The session moves to later Stores when it is told again, or in its next step.
TEST_F(SessionHandleTest, ASessionIsMovedOnceWhenItIsTold) {
  list_->MoveIdle();
  StoreBehind();
  EXPECT_FALSE(HasMoved());
  list_->MoveIdle();
  EXPECT_TRUE(HasMoved());
}

TEST_F(SessionHandleTest, ASessionInUseIsMovedByItsLastUser) {
  StoreBehind();
  {
    const SessionHandle::Use first = handle_->InUse();
    {
      const SessionHandle::Use second = handle_->InUse();
      list_->MoveIdle();
      EXPECT_EQ(second->chain().num_tokens(), 0u);
    }
    EXPECT_EQ(first->chain().num_tokens(), 0u) << "one is inside yet";
  }
  EXPECT_TRUE(HasMoved());
}

TEST_F(SessionHandleTest, AClosedSessionIsNotInTheList) {
  StoreBehind();
  handle_.reset();
  list_->MoveIdle();
}

}  // namespace
}  // namespace attndb::internal
