#include "bench/e2e/truncation_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "bench/e2e/likelihood.h"

namespace attndb::bench {
namespace {

constexpr size_t kNumChoices = 4;
using Passages = std::array<std::span<const TokenId>, kNumChoices>;

class Stream {
 public:
  Stream(Way way, const StreamOptions& options, const DB* db, llama::LlamaEngine* engine,
         std::span<const TokenId> document)
      : way_(way), options_(options), db_(db), engine_(engine), document_(document) {}

  Result<StreamResult> Run(Session session) {
    const uint64_t step = options_.window.tokens - options_.window.left;
    for (uint64_t i = 0; i < options_.num_segments; ++i) {
      const uint64_t begin = options_.window.tokens + i * step;
      ATTNDB_ASSIGN_OR_RETURN(session, Truncate(way_, options_.window, *db_, engine_,
                                                document_.first(begin), std::move(session)));
      ATTNDB_RETURN_IF_ERROR(RunSegment(begin, begin + step, &session));
    }
    return std::move(result_);
  }

 private:
  // Stops choices_per_segment times on the way, at equal distances, the last time at the end.
  Status RunSegment(uint64_t begin, uint64_t end, Session* session) {
    const uint64_t parts = std::max<uint64_t>(1, options_.choices_per_segment);
    double sum = 0;
    for (uint64_t i = 0; i < parts; ++i) {
      const uint64_t from = begin + (end - begin) * i / parts;
      const uint64_t to = begin + (end - begin) * (i + 1) / parts;
      ATTNDB_RETURN_IF_ERROR(RunPart(from, to, session, &sum));
      if (options_.choices_per_segment > 0) ATTNDB_RETURN_IF_ERROR(Choose(to, *session));
    }
    result_.segment_nll.push_back(sum / static_cast<double>(end - begin));
    return Status::Ok();
  }

  Status RunPart(uint64_t from, uint64_t to, Session* session, double* sum) {
    llama::PrefillOptions options;
    options.on_logits = [&](uint64_t index, std::span<const float> logits) {
      *sum += NegativeLogLikelihood(logits, document_[from + index + 1]);
    };
    return engine_->Prefill(*session, document_.subspan(from, to - from), options);
  }

  // What follows at `at`, and three passages from elsewhere: the document's other quarters, at the
  // same distance from each other.
  Passages PassagesAt(uint64_t at) const {
    const uint64_t places = document_.size() - options_.choice_tokens;
    Passages passages;
    for (size_t i = 0; i < kNumChoices; ++i) {
      const uint64_t place = (at + i * places / kNumChoices) % places;
      passages[i] = document_.subspan(place, options_.choice_tokens);
    }
    return passages;
  }

  Status Choose(uint64_t at, const Session& session) {
    ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> last, engine_->Logits());
    const std::vector<float> before(last.begin(), last.end());
    const Passages passages = PassagesAt(at);
    std::array<double, kNumChoices> nll = {};
    for (size_t i = 0; i < kNumChoices; ++i) {
      ATTNDB_ASSIGN_OR_RETURN(Session fork, session.Fork());
      const std::span<const TokenId> passage = passages[i];
      nll[i] = NegativeLogLikelihood(before, passage.front());
      llama::PrefillOptions options;
      options.on_logits = [&](uint64_t index, std::span<const float> logits) {
        nll[i] += NegativeLogLikelihood(logits, passage[index + 1]);
      };
      ATTNDB_RETURN_IF_ERROR(engine_->Prefill(fork, passage.first(passage.size() - 1), options));
    }
    result_.chosen_right.push_back(nll[0] < *std::min_element(nll.begin() + 1, nll.end()));
    return Status::Ok();
  }

  const Way way_;
  const StreamOptions& options_;
  const DB* const db_;
  llama::LlamaEngine* const engine_;
  const std::span<const TokenId> document_;
  StreamResult result_;
};

}  // namespace

uint64_t TokensOfStream(const StreamOptions& options) {
  const uint64_t step = options.window.tokens - options.window.left;
  return options.window.tokens + options.num_segments * step + options.choice_tokens + 1;
}

Result<Session> FirstWindow(Way way, const StreamOptions& options, const DB& db,
                            llama::LlamaEngine* engine, std::span<const TokenId> document) {
  if (document.size() < TokensOfStream(options)) {
    return Status::InvalidArgument("the document has " + std::to_string(document.size()) +
                                   " tokens, expected " + std::to_string(TokensOfStream(options)));
  }
  ATTNDB_ASSIGN_OR_RETURN(Session session, EmptySession(way, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, document.first(options.window.tokens)));
  return session;
}

Result<StreamResult> RunStream(Way way, const StreamOptions& options, const DB& db,
                               llama::LlamaEngine* engine, std::span<const TokenId> document,
                               Session session) {
  return Stream(way, options, &db, engine, document).Run(std::move(session));
}

}  // namespace attndb::bench
