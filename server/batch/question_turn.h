// A turn that runs a question by itself and keeps its q (find_question.h), beside all other turns:
// passes read the template in front, and the question runs alone behind a pass, as one more pass.
//
// Limits:  the question has at most EngineOptions::ubatch_tokens tokens of its own.
// Threads: as Turn.
#ifndef ATTNDB_SERVER_BATCH_QUESTION_TURN_H_
#define ATTNDB_SERVER_BATCH_QUESTION_TURN_H_

#include <functional>
#include <memory>
#include <string>

#include "attndb/result.h"
#include "attndb/session.h"
#include "engines/llama/find_question.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/turn.h"

namespace attndb::server {

// Listens to a turn whose prompt is read, and no more. One of the two is called, once, unless the
// turn is cancelled; on the scheduler's thread, and it may not wait.
class ReadListener final : public TurnListener {
 public:
  using OnReadCall = std::function<void(llama::LlamaEngine*, Session)>;
  using OnErrorCall = std::function<void(const Status&)>;

  ReadListener(OnReadCall on_read, OnErrorCall on_error)
      : on_read_(std::move(on_read)), on_error_(std::move(on_error)) {}

  void OnStart(const TurnStart& /*start*/) override {}
  void OnText(std::string_view /*text*/) override {}
  void OnEnd(const TurnEnd& /*end*/) override {}
  void OnError(const Status& status) override { on_error_(status); }
  void OnRead(llama::LlamaEngine* engine, Session session) override {
    on_read_(engine, std::move(session));
  }

 private:
  const OnReadCall on_read_;
  const OnErrorCall on_error_;
};

struct QuestionRun {
  std::string tenant;
  double received_seconds = 0;
  std::shared_ptr<llama::FindQuestion> asked;  // Its q are there once `then` says Ok.
  // Called once, unless the turn is cancelled; on the scheduler's thread, and it may not wait.
  std::function<void(const Status&)> then;
};

// `db`: where the question's session is; nothing is stored there.
// Errors: kInvalidArgument (the question is too long); as DB::CreateSession.
Result<std::shared_ptr<Turn>> MakeQuestionTurn(const llama::LlamaEngine& engine, const DB& db,
                                               QuestionRun run);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_QUESTION_TURN_H_
