#include "server/find/head_trial_run.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engines/llama/find_question.h"
#include "server/batch/question_turn.h"
#include "server/find/scratch_store.h"

namespace attndb::server {
namespace {

// No tenant has this name: no turn of the trial meets a tenant's conversations.
const std::string kNobody = "(trial)";

// Nobody is answered: work that throws ends the trial, and no client of it.
class NoResponder final : public Responder {
 public:
  void Send(Response /*response*/) override {}
  void Begin(Response /*response*/) override {}
  void Write(std::string /*piece*/) override {}
  void End() override {}
  bool closed() const override { return false; }
  void OnClosed(std::function<void()> /*then*/) override {}
};

// One trial. Its steps run one after the other; whatever holds it last ends it.
class TrialRun : public std::enable_shared_from_this<TrialRun> {
 public:
  using Done = std::function<void(Result<std::vector<llama::RankedHead>>)>;

  TrialRun(Service* service, Done done) : service_(service), done_(std::move(done)) {
    call_.responder = std::make_shared<NoResponder>();
    call_.noted->store(true);
  }
  ~TrialRun() { End(Status::Cancelled("the trial of the model's heads was given up")); }
  TrialRun(const TrialRun&) = delete;
  TrialRun& operator=(const TrialRun&) = delete;

  void Begin() {
    const Status status = ReadText();
    if (!status.ok()) End(status);
  }

 private:
  Status ReadText() {
    const llama::LlamaEngine& engine = *service_->engine;
    ATTNDB_ASSIGN_OR_RETURN(llama::HeadTrial trial, llama::HeadTrial::Make(engine));
    trial_.emplace(std::move(trial));
    ATTNDB_ASSIGN_OR_RETURN(ScratchStore scratch, ScratchStore::Open());
    scratch_.emplace(std::move(scratch));
    SessionOptions alone;
    alone.reuse = false;
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            scratch_->db().CreateSession(engine.spec(), trial_->text(), alone));
    TurnRequest request;
    request.tenant = kNobody;
    request.prompt.assign(trial_->text().begin(), trial_->text().end());
    request.replies = false;
    request.generate.max_tokens = 0;
    request.received_seconds = MonotonicSeconds();
    auto listener = std::make_shared<ReadListener>(
        [self = shared_from_this()](llama::LlamaEngine*, Session session) {
          auto read = std::make_shared<Session>(std::move(session));
          self->Later([self, read] {
            const Status stored = self->scratch_->db().Store(*read, self->trial_->text()).status();
            return stored.ok() ? self->Ask() : stored;
          });
        },
        [self = shared_from_this()](const Status& status) { self->End(status); });
    AddWhenPromised(service_, std::make_shared<Turn>(std::move(request), std::move(start.session),
                                                     std::move(start.rest), std::move(listener)));
    return Status::Ok();
  }

  // Asks the next question.
  Status Ask() {
    ATTNDB_ASSIGN_OR_RETURN(
        llama::FindQuestion prepared,
        llama::FindQuestion::Prepare(*service_->engine, trial_->question(next_), trial_->heads()));
    const auto asked = std::make_shared<llama::FindQuestion>(std::move(prepared));
    const auto then = [self = shared_from_this(), asked](const Status& status) {
      if (!status.ok()) return self->End(status);
      self->Later([self, asked] { return self->Judge(*asked); });
    };
    ATTNDB_ASSIGN_OR_RETURN(const std::shared_ptr<Turn> turn,
                            MakeQuestionTurn(*service_->engine, scratch_->db(),
                                             {.tenant = kNobody,
                                              .received_seconds = MonotonicSeconds(),
                                              .asked = asked,
                                              .then = then}));
    AddWhenPromised(service_, turn);
    return Status::Ok();
  }

  Status Judge(const llama::FindQuestion& asked) {
    ATTNDB_ASSIGN_OR_RETURN(
        const FindResult found,
        llama::HeadTrial::FindAll(service_->engine->spec(), scratch_->db(), asked.query()));
    trial_->Judge(next_++, found);
    if (next_ < trial_->num_questions()) return Ask();
    End(trial_->Ranked());
    return Status::Ok();
  }

  // Runs a step on a thread that may wait for the disk.
  void Later(std::function<Status()> step) {
    service_->run_loading(
        call_,
        [self = shared_from_this(), step = std::move(step)] {
          const Status status = step();
          if (!status.ok()) self->End(status);
        },
        [] { return false; });
  }

  // The first end is the end.
  void End(Result<std::vector<llama::RankedHead>> ranked) {
    const Done done = std::exchange(done_, nullptr);
    if (done) done(std::move(ranked));
  }

  Service* const service_;
  Call call_;
  Done done_;
  std::optional<llama::HeadTrial> trial_;
  std::optional<ScratchStore> scratch_;
  size_t next_ = 0;  // Index of the question that is asked.
};

}  // namespace

void RunHeadTrial(Service* service,
                  std::function<void(Result<std::vector<llama::RankedHead>>)> done) {
  std::make_shared<TrialRun>(service, std::move(done))->Begin();
}

}  // namespace attndb::server
