// What a session computes in each layer: the plan, and its text.
//
//   plan  := query { ";" "layers" range { "," range } ":" query }
//   range := number [ "-" number ]                                (both ends included)
//   query := name [ "(" key "=" value { "," key "=" value } ")" ]
//
// Names: full, window, topk(k), dipr(beta|alpha), mass(p), auto(error); the presets `alaya` and
//        `retrieval_attention` stand for their papers' settings. Keys of all but full: sink,
//        window; of topk, dipr and mass also index=flat, bits=exact|4|8, remainder=drop|sample:n:
//        what this version has; auto has bits alone, 4 unless
//        said.
// Units: beta is a margin of unscaled scores; alpha a ratio of attention weights, 0 < alpha <= 1,
//        beta = -ln(alpha) / scale ([Alaya] 6.1); p a share of softmax mass, 0 < p <= 1; error
//        the norm of out - full over that of full, in the mean over q heads, 0 < error <= 0.5.
// Threads: values.
#ifndef ATTNDB_QUERY_PLAN_PLAN_H_
#define ATTNDB_QUERY_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::query {

enum class QueryKind : uint8_t {
  kFull,    // All tokens.
  kWindow,  // Sink and window only.
  kTopK,    // Sink, window and the k middle tokens of largest score, per q head.
  kDipr,    // Sink, window, and middle tokens of score >= max over all tokens - beta, per q head.
  kMass,    // Sink, window, and the fewest middle tokens that bring their mass to p, per q head.
  kAuto,    // As kMass, and as many samples of the remainder as keep the error.
};

// The query of one layer.
struct LayerPlan {
  QueryKind kind = QueryKind::kFull;
  uint32_t k = 0;         // kTopK.
  double beta = 0.0;      // kDipr, if alpha is 0.
  double alpha = 0.0;     // kDipr, if not 0.
  double p = 0.0;         // kMass.
  double error = 0.0;     // kAuto.
  uint32_t bits = 0;      // Of the key planes that are searched, 4 or 8; 0 = K itself.
  uint32_t samples = 0;   // Drawn from the remainder, to estimate it; 0 = it is dropped.
  uint32_t sink = 16;     // First tokens that are always attended to.
  uint32_t window = 128;  // Last tokens that are always attended to, the row's own included.

  // Whether it chooses tokens, per q head.
  bool Chooses() const { return kind != QueryKind::kFull && kind != QueryKind::kWindow; }
  // Margin below the largest unscaled score, for a layer with this softmax scale.
  double Beta(float scale) const;
  // Share of the mass that the search is to hold: p, or what suits the error.
  double Mass() const;
  // Tokens to draw from the remainder: at once, or to learn from how many it takes.
  uint32_t FirstSamples() const;
  // Whether what the search leaves out is estimated.
  bool Samples() const { return samples != 0 || kind == QueryKind::kAuto; }
  // Canonical text; parses back to an equal plan.
  std::string ToString() const;
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

class Plan {
 public:
  // Errors: kInvalidArgument with the column (from 1) and what was expected there; kUnsupported for
  //         values of index, bits and remainder that this version does not have.
  static Result<Plan> Parse(std::string_view text);

  const LayerPlan& ForLayer(LayerId layer) const;  // The last override that names it, or the base.
  std::string ToString() const;

  // Errors: kInvalidArgument if an override names a layer that a model of num_layers does not have.
  Status CheckLayers(uint32_t num_layers) const;

 private:
  friend class PlanParser;
  struct Override {
    LayerId first = 0;
    LayerId last = 0;
    LayerPlan plan;
  };

  LayerPlan base_;
  std::vector<Override> overrides_;
};

}  // namespace attndb::query

#endif  // ATTNDB_QUERY_PLAN_PLAN_H_
