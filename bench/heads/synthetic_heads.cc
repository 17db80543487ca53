#include "bench/heads/synthetic_heads.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/heads/random_rows.h"
#include "cli/common/parse_number.h"
#include "cli/common/units.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kSeed = 17;
constexpr uint64_t kMaxQueries = 128;
constexpr float kMeanShare = 0.15F;       // Share of the values' energy that their mean has.
constexpr float kSinkValueLength = 0.2F;  // Length of sinks' values over that of other values.
enum Stream : uint64_t { kKeys, kValues, kValueMeans, kQueries };

struct Profile {
  float mass;   // Share of the softmax mass that lies in the middle.
  float sigma;  // Standard deviation of the middle's logits.
};
// In an order in which neighbours differ.
constexpr Profile kProfiles[] = {
    {0.026F, 3.08F}, {0.315F, 3.39F}, {0.923F, 3.47F}, {0.117F, 2.82F}, {0.582F, 3.28F},
    {0.030F, 3.29F}, {0.335F, 3.81F}, {0.004F, 3.44F}, {0.136F, 2.14F}, {0.642F, 3.80F},
    {0.035F, 3.26F}, {0.409F, 3.72F}, {0.007F, 3.37F}, {0.167F, 2.68F}, {0.668F, 2.97F},
    {0.046F, 2.81F}, {0.429F, 2.45F}, {0.011F, 3.83F}, {0.200F, 2.70F}, {0.711F, 2.79F},
    {0.063F, 2.90F}, {0.471F, 2.78F}, {0.015F, 3.47F}, {0.252F, 2.89F}, {0.770F, 3.53F},
    {0.084F, 2.57F}, {0.512F, 3.98F}, {0.018F, 2.95F}, {0.278F, 3.22F}, {0.831F, 3.62F},
    {0.098F, 2.61F}, {0.536F, 3.89F}};

// Share of a normal distribution above `z`.
double UpperTail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

// Expected ln of the sum of exp(logit) over `count` normal logits: of the mean of exp(logit),
// exp(sigma^2 / 2), that part which lies below the largest logit that so many draws reach.
double ExpectedLogSum(double sigma, double count) {
  double largest = 0;
  for (double step = 4; step > 1e-3; step /= 2) {
    if (UpperTail(largest + step) * count > 0.5) largest += step;
  }
  return std::log(count) + sigma * sigma / 2 + std::log(UpperTail(sigma - largest));
}

class Synthetic : public HeadSource {
 public:
  explicit Synthetic(HeadInfo info) : HeadSource(std::move(info)) {}

  Status ReadKv(size_t i, TokenRange range, float* k, float* v) override {
    const LayerSpec& layer = info().layer(i);
    for (uint64_t token = range.begin; token < range.end; ++token) {
      for (uint32_t head = 0; head < layer.num_kv_heads; ++head) {
        FillKey(token, head, {k, layer.head_dim});
        FillValue(token, head, {v, layer.v_head_dim});
        k += layer.head_dim;
        v += layer.v_head_dim;
      }
    }
    return Status();
  }

  Status ReadQueries(size_t i, TokenRange range, float* q) override {
    const LayerSpec& layer = info().layer(i);
    for (uint64_t token = range.begin; token < range.end; ++token) {
      for (uint32_t head = 0; head < layer.num_q_heads; ++head, q += layer.head_dim) {
        FillQuery(token, head, layer, {q, layer.head_dim});
      }
    }
    return Status();
  }

 private:
  static uint64_t Row(uint64_t token, uint32_t head) { return token << 16 | head; }

  // Channel 0 is the sink's, in which it is as long as other keys are in all of theirs.
  void FillKey(uint64_t token, uint32_t head, std::span<float> key) const {
    normal_.Fill(kKeys, Row(token, head), key);
    key[0] = token == 0 ? std::sqrt(static_cast<float>(key.size())) : 0.0F;
  }

  void FillValue(uint64_t token, uint32_t head, std::span<float> value) const {
    std::vector<float> mean(value.size());
    normal_.Fill(kValueMeans, head, mean);
    normal_.Fill(kValues, Row(token, head), value);
    const float length = token == 0 ? kSinkValueLength : 1.0F;
    for (size_t d = 0; d < value.size(); ++d) {
      value[d] = length * (std::sqrt(1 - kMeanShare) * value[d] + std::sqrt(kMeanShare) * mean[d]);
    }
  }

  void FillQuery(uint64_t token, uint32_t head, const LayerSpec& layer,
                 std::span<float> query) const {
    const Profile& profile = kProfiles[head % std::size(kProfiles)];
    normal_.Fill(kQueries, Row(token, head), query);
    const std::span<float> rest = query.subspan(1);
    const float norm = std::sqrt(std::inner_product(rest.begin(), rest.end(), rest.begin(), 0.0F));
    const float root = std::sqrt(static_cast<float>(layer.head_dim));  // 1 / scale.
    for (float& value : rest) value *= profile.sigma * root / norm;
    const double sink_logit =
        std::log((1 - profile.mass) / profile.mass) +
        ExpectedLogSum(profile.sigma, static_cast<double>(std::max<uint64_t>(token, 1)));
    query[0] = static_cast<float>(sink_logit);  // The sink's key has length root = 1 / scale.
  }

  const NormalRows normal_{kSeed};
};

}  // namespace

Result<LayerSpec> ParseGeometry(std::string_view text) {
  LayerSpec layer;
  const std::string_view known =
      text == "llama3-8b" ? "8x4x128" : (text == "smollm2" ? "3x3x64" : text);
  const size_t first = known.find('x');
  const size_t second = first == std::string_view::npos ? first : known.find('x', first + 1);
  std::optional<uint32_t> kv_heads, group, head_dim;
  if (second != std::string_view::npos) {
    kv_heads = cli::ParseNumber<uint32_t>(known.substr(0, first));
    group = cli::ParseNumber<uint32_t>(known.substr(first + 1, second - first - 1));
    head_dim = cli::ParseNumber<uint32_t>(known.substr(second + 1));
  }
  constexpr uint32_t kMax = 4096;
  if (!kv_heads || !group || !head_dim || *kv_heads < 1 || *group < 1 || *head_dim < 2 ||
      *kv_heads > kMax || *group > kMax / *kv_heads || *head_dim > kMax) {
    return Status::InvalidArgument(
        "geometry '" + std::string(text) +
        "', expected llama3-8b, smollm2, or kv heads, q heads of each and channels, as in 8x4x128");
  }
  layer.num_kv_heads = *kv_heads;
  layer.num_q_heads = *kv_heads * *group;
  layer.head_dim = *head_dim;
  layer.v_head_dim = *head_dim;
  return layer;
}

Result<std::unique_ptr<HeadSource>> SyntheticHeads(const LayerSpec& layer, uint64_t num_tokens,
                                                   DType kv_dtype) {
  HeadInfo info;
  info.model = ModelSpec::Uniform(1, layer, kv_dtype, "attndb-bench");
  info.layers = {0};
  info.num_tokens = num_tokens;
  info.num_queries = std::min(num_tokens, kMaxQueries);
  info.origin = HeadOrigin::kSynthetic;
  info.description = "synthetic, with the spread of SmolLM2's softmax";
  ATTNDB_RETURN_IF_ERROR(info.model.Validate());
  return std::unique_ptr<HeadSource>(std::make_unique<Synthetic>(std::move(info)));
}

}  // namespace attndb::bench
