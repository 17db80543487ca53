#include "query/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace attndb::query {
namespace {

// Shortest text that reads back as the same double.
std::string NumberText(double value) {
  char text[40];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(text, sizeof(text), "%.*g", precision, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string SinkAndWindow(const LayerPlan& plan) {
  return "sink=" + std::to_string(plan.sink) + ",window=" + std::to_string(plan.window);
}

// How tokens are searched, and what becomes of those left out; the defaults are not written.
std::string SearchText(const LayerPlan& plan) {
  std::string text;
  if (plan.bits != 0) text += ",bits=" + std::to_string(plan.bits);
  if (plan.bits == 0 && plan.kind == QueryKind::kAuto) text += ",bits=exact";  // Not its default.
  if (plan.samples != 0) text += ",remainder=sample:" + std::to_string(plan.samples);
  return text;
}

}  // namespace

double LayerPlan::Beta(float scale) const {
  return alpha > 0.0 ? -std::log(alpha) / static_cast<double>(scale) : beta;
}

// The mass left out, over the error asked for. Leaving out more costs more samples than it saves
// critical tokens, leaving out less the other way round: on SmolLM2's heads 256 samples keep the
// error at this.
constexpr double kRemainderPerError = 8.0;

// Of `auto`: enough to tell the spread of the values, which decides how many more it takes.
constexpr uint32_t kFirstSamples = 64;

double LayerPlan::Mass() const {
  if (kind != QueryKind::kAuto) return p;
  return std::max(0.5, 1.0 - kRemainderPerError * error);
}

uint32_t LayerPlan::FirstSamples() const {
  return kind == QueryKind::kAuto ? kFirstSamples : samples;
}

std::string LayerPlan::ToString() const {
  std::string what;
  switch (kind) {
    case QueryKind::kFull:
      return "full";
    case QueryKind::kWindow:
      return "window(" + SinkAndWindow(*this) + ")";
    case QueryKind::kTopK:
      what = "topk(k=" + std::to_string(k);
      break;
    case QueryKind::kDipr:
      what = "dipr(" + (alpha > 0.0 ? "alpha=" + NumberText(alpha) : "beta=" + NumberText(beta));
      break;
    case QueryKind::kMass:
      what = "mass(p=" + NumberText(p);
      break;
    case QueryKind::kAuto:
      what = "auto(error=" + NumberText(error);
      break;
  }
  return what + SearchText(*this) + "," + SinkAndWindow(*this) + ")";
}

const LayerPlan& Plan::ForLayer(LayerId layer) const {
  for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
    if (it->first <= layer && layer <= it->last) return it->plan;
  }
  return base_;
}

std::string Plan::ToString() const {
  std::string text = base_.ToString();
  for (const Override& item : overrides_) {
    text += "; layers " + std::to_string(item.first);
    if (item.last != item.first) text += "-" + std::to_string(item.last);
    text += ": " + item.plan.ToString();
  }
  return text;
}

Status Plan::CheckLayers(uint32_t num_layers) const {
  for (const Override& item : overrides_) {
    if (item.last >= num_layers) {
      return Status::InvalidArgument("plan '" + ToString() + "': layer " +
                                     std::to_string(item.last) + " does not exist; the model has " +
                                     std::to_string(num_layers) + " layers, counted from 0");
    }
  }
  return Status::Ok();
}

}  // namespace attndb::query
