#include "server/routes/embeddings.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "engines/llama/embedder.h"
#include "engines/llama/llama_engine.h"
#include "server/openai/embedding_answer.h"
#include "server/openai/embedding_request.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

Status CheckDimensions(const EmbeddingRequest& request, uint32_t embedding_size) {
  if (request.dimensions == 0 || request.dimensions == embedding_size) return Status::Ok();
  return Status::InvalidArgument("'dimensions' is " + std::to_string(request.dimensions) +
                                 ", expected " + std::to_string(embedding_size) +
                                 ": this model's embeddings have no other number of them");
}

// One request, from its inputs' tokens to its answer. Its steps run one after the other.
class EmbeddingCall : public std::enable_shared_from_this<EmbeddingCall> {
 public:
  EmbeddingCall(Service* service, Call call, bool base64)
      : service_(service), call_(std::move(call)), answer_(base64) {
    ++service_->num_embedding_calls;
  }
  ~EmbeddingCall() { --service_->num_embedding_calls; }
  EmbeddingCall(const EmbeddingCall&) = delete;
  EmbeddingCall& operator=(const EmbeddingCall&) = delete;

  // Everything up to the model. Errors: kInvalidArgument; kResourceExhausted (others wait).
  Status Begin(EmbeddingRequest request) {
    if (service_->num_embedding_calls > kMaxEmbeddingCalls) {
      return Status::ResourceExhausted(std::to_string(kMaxEmbeddingCalls) +
                                       " requests for embeddings are under way");
    }
    ATTNDB_RETURN_IF_ERROR(TakeInputs(std::move(request)));
    const uint64_t bytes = service_->engine->EmbedderBytes(longest_);
    const auto begin = [self = shared_from_this()](MemoryGate::Place place) {
      if (place == nullptr) return self->Fail(Status::Cancelled("the server stops"));
      self->memory_ = std::move(place);
      self->Later();
    };
    const auto is_gone = [responder = call_.responder] { return responder->closed(); };
    ATTNDB_RETURN_IF_ERROR(service_->gate->Enter(bytes, begin, is_gone));
    call_.responder->OnClosed([service = service_] { service->gate->LookForGone(); });
    return Status::Ok();
  }

 private:
  Status TakeInputs(EmbeddingRequest request) {
    inputs_ = std::move(request.tokens);
    const llama::TokenizeLimits limits =
        LimitsFor(*service_, call_, service_->engine->info().max_context);
    for (size_t i = 0; i < request.texts.size(); ++i) {
      // Texts that are too short for the limits may be many.
      if (!limits.progress(i, request.texts.size())) return Status::Cancelled("the server stops");
      Result<std::vector<TokenId>> tokens =
          service_->engine->Tokenize(request.texts[i], /*add_special=*/true,
                                     /*parse_special=*/false, limits);
      if (!tokens.ok()) return tokens.status().WithContext(NameOf(i));
      inputs_.push_back(*std::move(tokens));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      ATTNDB_RETURN_IF_ERROR(CheckInput(i));
      num_tokens_ += inputs_[i].size();
      longest_ = std::max<uint64_t>(longest_, inputs_[i].size());
    }
    return Status::Ok();
  }

  // Before any runs: an input that can't be embedded costs nothing of the others.
  Status CheckInput(size_t i) const {
    const llama::ModelInfo& info = service_->engine->info();
    const std::vector<TokenId>& input = inputs_[i];
    const uint64_t most = info.max_context;  // 0: nobody knows.
    if (input.empty() || (most > 0 && input.size() > most)) {
      return Status::InvalidArgument("'" + NameOf(i) + "' has " +
                                     CountedTokens(call_, input.size()) +
                                     ", the model was trained on 1 to " + FormatCount(most));
    }
    const auto largest = static_cast<uint32_t>(*std::max_element(input.begin(), input.end()));
    if (largest < info.vocab_size) return Status::Ok();
    return Status::InvalidArgument("'" + NameOf(i) + "' has token " + std::to_string(largest) +
                                   ", the vocabulary has ids 0 to " +
                                   std::to_string(info.vocab_size - 1));
  }

  std::string NameOf(size_t i) const { return "input[" + std::to_string(i) + "]"; }

  void Later() {
    Call call = call_;
    call.place.LetGo();  // This has it.
    service_->run_embedding(call, [self = shared_from_this()] { self->Step(); });
  }

  // Embeds one input; others' get their turn before the next one.
  void Step() {
    if (call_.responder->closed()) return Leave();
    const Status status = EmbedNext();
    if (call_.responder->closed()) return Leave();
    if (!status.ok()) return Fail(status);
    if (answer_.size() < inputs_.size()) return Later();
    End();
  }

  Status EmbedNext() {
    if (embedder_ == nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(embedder_, service_->engine->OpenEmbedder(longest_));
    }
    const size_t i = answer_.size();
    const Result<std::vector<float>> embedding =
        embedder_->Embed(inputs_[i], [this](uint64_t num_tokens) {
          if (call_.responder->closed()) return false;
          embedder_->UseThreads(NumThreads());
          service_->admission->Count(call_.rules.tenant, num_tokens, MonotonicSeconds());
          service_->metrics->num_embedded_tokens += num_tokens;
          return true;
        });
    if (!embedding.ok()) return embedding.status().WithContext(NameOf(i));
    answer_.Add(*embedding);
    return Status::Ok();
  }

  // For the next part. A pass waits for the slowest of its threads: turns share one core at most.
  uint32_t NumThreads() const {
    return service_->runs_turns() ? 1 : service_->engine->options().num_threads;
  }

  // Memory and the place go before the client knows, who may ask again at once.
  void LetGo() {
    embedder_.reset();
    memory_.reset();
    call_.place.Free();
  }

  void End() {
    LetGo();
    NoteEnd(service_, call_, {.num_prompt_tokens = num_tokens_});
    AnswerCall(service_, call_, {.body = answer_.Finish(service_->options.model_id, num_tokens_)});
  }

  void Fail(const Status& status) {
    LetGo();
    AnswerCall(service_, call_, ErrorResponse(status));
  }

  void Leave() {
    LetGo();
    ++service_->metrics->num_cancelled;
    NoteEnd(service_, call_, {.status = kClientGone});
  }

  Service* const service_;
  Call call_;
  std::vector<std::vector<TokenId>> inputs_;
  uint64_t num_tokens_ = 0;
  uint64_t longest_ = 0;  // Tokens of the longest input.
  MemoryGate::Place memory_;
  std::unique_ptr<llama::Embedder> embedder_;
  EmbeddingAnswer answer_;  // As many entries as inputs are done.
};

Status BeginEmbeddings(Service* service, const Call& call) {
  const uint32_t embedding_size = service->engine->info().embedding_size;
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(EmbeddingRequest request, ParseEmbedding(body));
  ATTNDB_RETURN_IF_ERROR(CheckDimensions(request, embedding_size));
  const auto embeddings =
      std::make_shared<EmbeddingCall>(service, WithoutRequest(call), request.base64);
  return embeddings->Begin(std::move(request));
}

}  // namespace

void AnswerEmbeddings(Service* service, Call call) {
  if (service->engine->info().embedding_size == 0) {
    return AnswerCall(service, call,
                      ErrorResponse(400, "model '" + service->options.model_id +
                                             "' generates text: it has no embeddings"));
  }
  service->run_later(call, [service, call] {
    const Status status = BeginEmbeddings(service, call);
    if (!status.ok()) AnswerCall(service, call, ErrorResponse(status));
  });
}

}  // namespace attndb::server
