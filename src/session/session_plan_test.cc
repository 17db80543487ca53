// Goal:   a call is planned from facts alone. The session reads no row, and no byte of a file,
//         before it knows which rows the call needs.
// Method: a store whose file system fails every operation once the session is open; its plan is
//         compared with the plan, and the run, on a file system that works.
#include "attndb/session.h"

#include "api/database.h"
#include "api/db_test_util.h"
#include "testing/fault_file_system.h"

namespace attndb::internal {
namespace {

using test::DBFixture;
using test::Tokens;

class SessionPlanTest : public DBFixture {
 protected:
  static std::unique_ptr<SessionImpl> SessionOn(const std::shared_ptr<Database>& database,
                                                const ModelSpec& spec, const Tokens& tokens,
                                                const std::string& plan) {
    Result<std::unique_ptr<SessionImpl>> session =
        database->OpenSession("default", spec, tokens, tokens.size(), {.plan = plan});
    EXPECT_THAT(session, test::IsOk());
    EXPECT_EQ((*session)->chain().num_tokens(), tokens.size());
    return *std::move(session);
  }

  // The plan, in words and numbers.
  static std::string Planned(const SessionImpl& session) {
    std::string text;
    for (const LayerExplain& layer : session.Explain().layers) {
      text += layer.plan + "|" + layer.reason + "|" + layer.notes + "\n";
      for (const HeadExplain& head : layer.heads) {
        text += head.plan + "|" + head.reason + "|" + std::to_string(head.predicted_bytes) + "|" +
                std::to_string(head.predicted_us) + "\n";
      }
    }
    return text;
  }
};

TEST_F(SessionPlanTest, PlanningReadsNothing) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{2000, 300}, 1);
  db_.reset();
  const DBOptions options = {.background_builds = false, .measure_machine = false};
  for (const char* plan : {"full", "auto(error=0.1)", "topk(k=50,bits=4)",
                           "topk(k=50,index=clustered)", "dipr(alpha=0.1,index=graph)"}) {
    SCOPED_TRACE(plan);
    std::string expected;
    {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const auto database,
                                  Database::Open(store(), options, storage::PosixFileSystem()));
      expected = Planned(*SessionOn(database, model_.spec(), stored, plan));
    }
    test::FaultFileSystem files(storage::PosixFileSystem());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto database, Database::Open(store(), options, &files));
    const auto session = SessionOn(database, model_.spec(), stored, plan);
    files.SetPlan({.fail_at = 1, .sticky = true});
    EXPECT_EQ(Planned(*session), expected);
    EXPECT_EQ(files.num_operations(), 0u);
    // The call itself does need rows: it was the planning that did not.
    const std::vector<float> q(size_t{model_.spec().layers[0].num_q_heads} *
                               model_.spec().layers[0].head_dim);
    std::vector<float> out(size_t{model_.spec().layers[0].num_q_heads} *
                           model_.spec().layers[0].v_head_dim);
    const LayerSpec& spec = model_.spec().layers[0];
    const Status status =
        session->Attend(0, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                        MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                      spec.num_q_heads, spec.v_head_dim),
                        nullptr);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status;
    EXPECT_GT(files.num_faults(), 0u);
  }
}

}  // namespace
}  // namespace attndb::internal
