// Database: passages of stored contexts that a question's heads attend to.
#include <string>
#include <utility>
#include <vector>

#include "api/database.h"
#include "api/find_query.h"
#include "find/find_passages.h"

namespace attndb::internal {
namespace {

// First tokens of a context that draw attention whatever is asked.
constexpr uint64_t kNumSinks = 4;

std::vector<find::KeyRun> KeyRunsOf(const store::SearchSet& set) {
  std::vector<find::KeyRun> runs;
  for (const store::SearchSet::Run& run : set.runs) {
    const uint64_t num_sinks = run.first_token < kNumSinks ? kNumSinks - run.first_token : 0;
    runs.push_back({run.segment, run.num_tokens, num_sinks});
  }
  return runs;
}

}  // namespace

Result<FindResult> Database::FindPassages(const std::string& tenant, const ModelSpec& spec,
                                          const FindQuery& query, const FindOptions& options) {
  Result<FindResult> result = SearchStored(tenant, spec, query, options);
  store_->uses()->Sweep();  // A context may have been dropped while its segments were read.
  return result;
}

Result<FindResult> Database::SearchStored(const std::string& tenant, const ModelSpec& spec,
                                          const FindQuery& query, const FindOptions& options) {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckFindOptions(options));
  const ModelSpec resolved = Resolve(spec);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<find::HeadQuestion> heads,
                          HeadQuestionsOf(resolved, query));
  ATTNDB_ASSIGN_OR_RETURN(store::SearchSet set,
                          store_->lookup()->OpenForSearch(tenant, resolved, options.contexts));
  const std::vector<find::KeyRun> runs = KeyRunsOf(set);
  FindResult result;
  result.skipped = std::move(set.skipped);
  result.num_contexts = set.contexts.size();
  for (const find::KeyRun& run : runs) result.num_tokens += run.num_tokens;
  ATTNDB_ASSIGN_OR_RETURN(
      find::PassageReport report,
      find::FindPassages({.spec = &resolved,
                          .runs = runs,
                          .heads = heads,
                          .num_tokens = static_cast<size_t>(query.q.front().rows()),
                          .first_position = query.first_position,
                          .passage_tokens = options.passage_tokens,
                          .limit = options.limit,
                          .head_scores = options.head_scores,
                          .budget = &budget_,
                          .pool = &pool_}));
  result.num_passages = report.num_passages;
  result.key_bytes = report.key_bytes;
  for (find::FoundPassage& passage : report.passages) {
    const store::SearchSet::RunUse& use = set.runs[passage.run].Owner(passage.tokens);
    const store::ContextRecord& context = set.contexts[use.context];
    result.passages.push_back(
        {context.Label(),
         PublicId(context.number),
         {use.first_token + passage.tokens.begin, use.first_token + passage.tokens.end},
         passage.score,
         std::move(passage.head_scores)});
  }
  for (const find::LostRun& lost : report.lost) {
    const store::SearchSet::Run& run = set.runs[lost.run];
    store_->damage()->Note(*run.segment, lost.status);
    for (const store::SearchSet::RunUse& use : run.uses) {
      result.skipped.push_back({set.contexts[use.context].Label(), lost.status.message()});
    }
  }
  return result;
}

}  // namespace attndb::internal
