// An index of the caller's own as a plan: pages of 16 tokens, told by their mean keys. Each q head
// attends to the pages whose mean key scores best, and takes every other page for as many tokens of
// its mean key and mean value. Prints how far from full attention this is, beside attndb's exact
// top-k, which drops the rest, on random keys that lie in bunches. Usage: custom_index FOLDER
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/attndb.h"

namespace {

using attndb::CustomQuery;
using attndb::CustomRange;
using attndb::CustomRows;
using attndb::CustomSelection;
using attndb::DType;
using attndb::MutableTensorView;
using attndb::Result;
using attndb::Status;
using attndb::TensorView;

constexpr uint64_t kPage = 16;

// Mean keys and mean values of a run's pages, a row each.
struct PageMeans final : attndb::CustomObject {
  std::vector<float> keys, values;
  uint64_t memory_bytes() const override { return (keys.size() + values.size()) * sizeof(float); }
};

std::vector<float> Means(std::span<const float> rows, uint64_t num_rows, size_t dim) {
  std::vector<float> means((num_rows + kPage - 1) / kPage * dim);
  for (uint64_t row = 0; row < num_rows; ++row) {
    const uint64_t page = row / kPage;
    const auto size = static_cast<float>(std::min(kPage, num_rows - page * kPage));
    for (size_t i = 0; i < dim; ++i) means[page * dim + i] += rows[row * dim + i] / size;
  }
  return means;
}

class Pages final : public attndb::CustomIndex {
 public:
  Result<attndb::CustomObjectPtr> Build(const CustomRows& rows) const override {
    auto means = std::make_shared<PageMeans>();
    means->keys = Means(rows.keys, rows.num_rows, rows.head_dim);
    means->values = Means(rows.values, rows.num_rows, rows.v_head_dim);
    return attndb::CustomObjectPtr(std::move(means));
  }

  Status Select(const CustomQuery& query, std::span<CustomSelection> selections) const override {
    const auto num_best = static_cast<size_t>(query.values[0]);
    for (size_t head = 0; head < selections.size(); ++head) {
      std::vector<Page> pages = Score(query, query.q.subspan(head * query.head_dim));
      const size_t best = std::min(num_best, pages.size());
      const auto middle = pages.begin() + static_cast<std::ptrdiff_t>(best);
      std::nth_element(pages.begin(), middle, pages.end(),
                       [](const Page& a, const Page& b) { return a.logit > b.logit; });
      for (auto page = pages.begin(); page != middle; ++page) {
        selections[head].ranges.push_back(page->range);
      }
      std::ranges::sort(selections[head].ranges, {}, [](const CustomRange& range) {
        return std::pair(range.part, range.begin);
      });
      Estimate(query, std::span(pages).subspan(best), &selections[head]);
    }
    return Status::Ok();
  }

 private:
  struct Page {
    CustomRange range;  // The rows of the page that the query may see.
    double logit = 0;   // Logit of all of the page's rows together.
    const float* value = nullptr;
  };

  static std::vector<Page> Score(const CustomQuery& query, std::span<const float> q) {
    std::vector<Page> pages;
    for (uint32_t number = 0; number < query.parts.size(); ++number) {
      const attndb::CustomPart& part = query.parts[number];
      const auto& means = static_cast<const PageMeans&>(*part.object);
      for (uint64_t at = part.visible.begin / kPage; at * kPage < part.visible.end; ++at) {
        Page page = {.range = {number, std::max(at * kPage, part.visible.begin),
                               std::min((at + 1) * kPage, part.visible.end)}};
        const float* const key = means.keys.data() + at * query.head_dim;
        const double score = std::inner_product(key, key + query.head_dim, q.begin(), 0.0);
        const auto num_rows = static_cast<double>(page.range.end - page.range.begin);
        page.logit = static_cast<double>(query.scale) * score + std::log(num_rows);
        page.value = means.values.data() + at * query.v_head_dim;
        pages.push_back(page);
      }
    }
    return pages;
  }

  static void Estimate(const CustomQuery& query, std::span<const Page> rest,
                       CustomSelection* selection) {
    if (rest.empty()) return;
    double highest = rest[0].logit, sum = 0;
    for (const Page& page : rest) highest = std::max(highest, page.logit);
    for (const Page& page : rest) sum += std::exp(page.logit - highest);
    selection->rest_lse = static_cast<float>(highest + std::log(sum));
    selection->rest_value.assign(query.v_head_dim, 0.0f);
    for (const Page& page : rest) {
      const auto weight = static_cast<float>(std::exp(page.logit - highest) / sum);
      for (size_t i = 0; i < query.v_head_dim; ++i) {
        selection->rest_value[i] += weight * page.value[i];
      }
    }
  }
};

constexpr int64_t kTokens = 2000, kHeads = 2, kQueryHeads = 4, kDim = 32;

// Rows of which forty in turn are alike: [tokens, heads, kDim].
std::vector<float> Bunches(int64_t tokens, int64_t heads, float scale, std::mt19937* random) {
  std::normal_distribution<float> normal;
  const auto row = static_cast<size_t>(heads * kDim);
  std::vector<float> rows(static_cast<size_t>(tokens) * row), shared(row);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % (40 * row) < row) shared[i % row] = normal(*random);
    rows[i] = scale * (shared[i % row] + 0.5f * normal(*random));
  }
  return rows;
}

TensorView View(const std::vector<float>& rows, int64_t heads) {
  const int64_t tokens = static_cast<int64_t>(rows.size()) / (heads * kDim);
  return TensorView::Contiguous(rows.data(), DType::kFloat32, tokens, heads, kDim);
}

// One token's attention under a plan over the stored tokens.
Result<std::vector<float>> Attend(attndb::Session* session, const std::string& plan,
                                  const std::vector<float>& q) {
  ATTNDB_RETURN_IF_ERROR(session->SetPlan(plan));
  std::vector<float> out(q.size());
  ATTNDB_RETURN_IF_ERROR(session->Attend(
      0, View(q, kQueryHeads),
      MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1, kQueryHeads, kDim)));
  return out;
}

double ErrorOf(const std::vector<float>& found, const std::vector<float>& full) {
  double off = 0, all = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    off += std::pow(found[i] - full[i], 2);
    all += std::pow(full[i], 2);
  }
  return std::sqrt(off / all);
}

Status Compare(const std::string& folder) {
  std::mt19937 random(7);
  const std::vector<float> k = Bunches(kTokens, kHeads, 1.0f, &random);
  const std::vector<float> v = Bunches(kTokens, kHeads, 1.0f, &random);
  const std::vector<float> q = Bunches(1, kQueryHeads, 1.5f, &random);
  std::vector<attndb::TokenId> tokens(kTokens + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  const attndb::LayerSpec layer = {
      .num_q_heads = kQueryHeads, .num_kv_heads = kHeads, .head_dim = kDim, .v_head_dim = kDim};
  const auto spec = attndb::ModelSpec::Uniform(1, layer, DType::kFloat32, "bunches");

  attndb::DBOptions options;
  options.custom_indexes = {
      {.name = "pages",
       .keys = {{.name = "best", .min = 1, .max = 1024, .whole = true, .fallback = 8}},
       .index = std::make_shared<Pages>()}};
  ATTNDB_ASSIGN_OR_RETURN(const attndb::DB db, attndb::DB::Open(folder, options));
  const attndb::LayerKv kv = {View(k, kHeads), View(v, kHeads)};
  ATTNDB_RETURN_IF_ERROR(
      db.Import(spec, std::span(tokens).first(kTokens), std::span(&kv, 1)).status());
  ATTNDB_ASSIGN_OR_RETURN(attndb::SessionStart start, db.CreateSession(spec, tokens));

  ATTNDB_ASSIGN_OR_RETURN(const auto full, Attend(&start.session, "full", q));
  for (const char* plan : {"pages(best=8)", "topk(k=128)", "topk(k=128,index=pages,best=16)"}) {
    ATTNDB_RETURN_IF_ERROR(Attend(&start.session, plan, q).status());  // Asks for the pages.
    ATTNDB_RETURN_IF_ERROR(start.session.AwaitDerived(0));
    ATTNDB_ASSIGN_OR_RETURN(const auto found, Attend(&start.session, plan, q));
    std::printf("%-34s error %5.1f %%\n", plan, 100 * ErrorOf(found, full));
  }
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_index FOLDER\n");
    return 2;
  }
  const Status status = Compare(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "custom_index: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
