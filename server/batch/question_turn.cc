#include "server/batch/question_turn.h"

#include <cstddef>
#include <span>
#include <utility>

#include "attndb/units.h"

namespace attndb::server {

Result<std::shared_ptr<Turn>> MakeQuestionTurn(const llama::LlamaEngine& engine, const DB& db,
                                               QuestionRun run) {
  const TokenRange own = run.asked->own_tokens();
  const uint64_t num_own = own.end - own.begin;
  const uint64_t most = engine.options().ubatch_tokens;
  if (num_own > most) {
    return Status::InvalidArgument("the question has " + Counted(num_own, "token") +
                                   ", expected at most " + FormatCount(most) +
                                   ", which one pass takes");
  }
  SessionOptions alone;
  alone.reuse = false;
  alone.plan = "full";
  // Its last token here is run again, with the others of the question.
  const std::span<const TokenId> front = run.asked->tokens().first(own.begin + 1);
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(engine.spec(), front, alone));
  TurnRequest request;
  request.tenant = std::move(run.tenant);
  request.prompt.assign(front.begin(), front.end());
  request.replies = false;
  request.generate.max_tokens = static_cast<uint32_t>(num_own);  // The memory that it may take.
  request.received_seconds = run.received_seconds;
  auto listener = std::make_shared<ReadListener>(
      [asked = run.asked, then = run.then, own](llama::LlamaEngine* running, Session session) {
        const Status cropped = session.Crop(own.begin);
        then(cropped.ok() ? asked->RunIn(running, &session) : cropped);
      },
      run.then);
  return std::make_shared<Turn>(std::move(request), std::move(start.session), std::move(start.rest),
                                std::move(listener));
}

}  // namespace attndb::server
