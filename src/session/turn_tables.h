// How the rows of q and k of each layer of a model are turned to other positions. Layers whose RoPE
// is the same share a table.
//
// Units:   positions.
// Threads: thread-compatible.
#ifndef ATTNDB_SESSION_TURN_TABLES_H_
#define ATTNDB_SESSION_TURN_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/turn.h"

namespace attndb::internal {

class TurnTables {
 public:
  // Errors: kUnsupported (a scaling whose angles are not known, by layer and name; a model without
  //         RoPE, whose positions, if it has any, are in the tokens' rows for good).
  static Result<TurnTables> Of(const ModelSpec& spec);

  // q of these layers is turned back by each of `moves`, for tokens that are moved on by as much.
  void SetMoves(std::span<const int64_t> moves);
  std::span<const Turn> TurnsOf(LayerId layer) const { return kinds_[kind_of_layer_[layer]].turns; }
  // q and k are turned on by so many positions as they come in. 0: not at all.
  void SetShift(int64_t positions);
  const Turn* ShiftOf(LayerId layer) const {
    const std::vector<Turn>& shift = kinds_[kind_of_layer_[layer]].shift;
    return shift.empty() ? nullptr : shift.data();
  }

 private:
  struct Kind {
    Rope rope;
    uint32_t head_dim = 0;
    std::vector<double> frequencies;
    std::vector<Turn> turns;
    std::vector<Turn> shift;  // One, or none.
  };

  std::vector<Kind> kinds_;
  std::vector<size_t> kind_of_layer_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_TURN_TABLES_H_
