#include "bench/attention/frontier.h"

#include <algorithm>

namespace attndb::bench {

std::vector<bool> OnFrontier(std::span<const PlanPoint> points) {
  std::vector<bool> on;
  for (const PlanPoint& point : points) {
    on.push_back(std::none_of(points.begin(), points.end(), [&](const PlanPoint& other) {
      return other.error <= point.error && other.cost <= point.cost &&
             (other.error < point.error || other.cost < point.cost);
    }));
  }
  return on;
}

std::vector<std::string> SweepPlans() {
  std::vector<std::string> plans = {"window", "alaya", "retrieval_attention"};
  for (const char* error : {"0.1", "0.03", "0.01", "0.005"}) {
    plans.push_back("auto(error=" + std::string(error) + ")");
    plans.push_back("auto(error=" + std::string(error) + ",bits=8)");
  }
  for (const char* query : {"topk(k=64", "topk(k=256", "topk(k=1024", "mass(p=0.9", "mass(p=0.95",
                            "mass(p=0.99", "dipr(alpha=0.012"}) {
    for (const char* options : {")", ",bits=8)", ",bits=4)", ",bits=4,remainder=mean)",
                                ",bits=4,remainder=sample:64)", ",bits=4,remainder=sample:256)"}) {
      plans.push_back(std::string(query) + options);
    }
  }
  return plans;
}

}  // namespace attndb::bench
