#include "server/find/find_passages.h"

#include <memory>
#include <utility>

#include "engines/llama/find_question.h"
#include "server/batch/question_turn.h"
#include "server/find/head_finder.h"

namespace attndb::server {
namespace {

class FindRun : public std::enable_shared_from_this<FindRun> {
 public:
  using Then = std::function<void(Result<FoundPassages>)>;

  FindRun(Service* service, Call call, FindAsked asked, Then then)
      : service_(service),
        call_(std::move(call)),
        asked_(std::move(asked)),
        then_(std::move(then)),
        start_seconds_(MonotonicSeconds()) {}

  void Begin() {
    service_->head_finder->Get([self = shared_from_this()](const Result<HeadFinder::Heads>& heads) {
      const Status status = heads.ok() ? self->Ask(*heads) : heads.status();
      if (!status.ok()) self->then_(status);
    });
  }

 private:
  Status Ask(const HeadFinder::Heads& heads) {
    ATTNDB_RETURN_IF_ERROR(CheckAwaited(*service_, call_));
    const llama::LlamaEngine& engine = *service_->engine;
    const std::string& tenant = call_.rules.tenant;
    ATTNDB_ASSIGN_OR_RETURN(llama::FindQuestion prepared,
                            llama::FindQuestion::Prepare(engine, asked_.question, heads, [this] {
                              return CheckAwaited(*service_, call_).ok();
                            }));
    ATTNDB_ASSIGN_OR_RETURN(const DB db, service_->conversations->HandleOf(tenant));
    const auto question = std::make_shared<llama::FindQuestion>(std::move(prepared));
    const auto then = [self = shared_from_this(), question, db](const Status& status) {
      if (!status.ok()) return self->then_(status);
      self->Search(question, db);
    };
    ATTNDB_ASSIGN_OR_RETURN(const std::shared_ptr<Turn> turn,
                            MakeQuestionTurn(engine, db,
                                             {.tenant = tenant,
                                              .received_seconds = call_.received_seconds,
                                              .asked = question,
                                              .then = then}));
    return ScheduleTurn(service_, call_, turn, /*is_unread=*/false);
  }

  // On the scheduler's thread: the search itself runs on another one.
  void Search(const std::shared_ptr<llama::FindQuestion>& question, const DB& db) {
    const TokenRange own = question->own_tokens();
    const double now = MonotonicSeconds();
    service_->admission->Count(call_.rules.tenant, own.end - own.begin, now);
    const double question_ms = (now - start_seconds_) * 1e3;
    NoteWhenGone();
    service_->run_loading(
        call_,
        [self = shared_from_this(), question, db, question_ms] {
          self->then_(self->Find(*question, db, question_ms));
        },
        [responder = call_.responder] { return responder->closed(); });
  }

  // The turn is over, and no longer notes that the client goes.
  void NoteWhenGone() {
    Call ended = call_;
    ended.responder.reset();  // It holds this.
    ended.place.LetGo();
    call_.responder->OnClosed([service = service_, ended = std::move(ended)] {
      ++service->metrics->num_cancelled;
      NoteEnd(service, ended, {.status = kClientGone});
      service->loads->LookForGone();
    });
  }

  Result<FoundPassages> Find(const llama::FindQuestion& question, const DB& db,
                             double question_ms) const {
    FoundPassages found;
    found.question_ms = question_ms;
    const double start = MonotonicSeconds();
    ATTNDB_ASSIGN_OR_RETURN(found.result,
                            db.Find(service_->engine->spec(), question.query(), asked_.options));
    found.find_ms = (MonotonicSeconds() - start) * 1e3;
    if (found.result.num_contexts > 0) return found;
    return Status::NotFound("no context of this model can be looked through");
  }

  Service* const service_;
  const Call call_;
  const FindAsked asked_;
  const Then then_;
  const double start_seconds_;
};

}  // namespace

void FindPassages(Service* service, const Call& call, FindAsked asked,
                  std::function<void(Result<FoundPassages>)> then) {
  std::make_shared<FindRun>(service, call, std::move(asked), std::move(then))->Begin();
}

}  // namespace attndb::server
