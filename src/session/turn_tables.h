// The rotations of the rows of q and k to other positions, for each layer of a model. Layers with
// the same RoPE share a table.
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
  // Errors: kUnsupported (a scaling with unknown angles, by layer and name; a model without RoPE,
  //         whose positions, if it has any, are part of the tokens' rows).
  static Result<TurnTables> Of(const ModelSpec& spec);

  // For tokens that are moved on by each of `moves`, q of these layers is rotated back by as much.
  void SetMoves(std::span<const int64_t> moves);
  std::span<const Turn> TurnsOf(LayerId layer) const { return kinds_[kind_of_layer_[layer]].turns; }
  // Incoming q and k are rotated by this many positions. 0: not at all.
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
