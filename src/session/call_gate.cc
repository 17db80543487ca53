#include "session/call_gate.h"

#include <string>

#include "attndb/units.h"

namespace attndb::internal {
namespace {

constexpr const char* kWhatToDo =
    ": bring its other parts, or give it up with Crop(num_tokens()) or Reset";

std::string TextOf(const CallGate::Call& call) {
  return "layer " + std::to_string(call.layer) + " in " + Counted(call.num_parts, "part");
}

}  // namespace

Status CallGate::RefuseOther(const Call& call, const Call& under_way) {
  return Status::FailedPrecondition("part of another call: " + TextOf(call) + ", while " +
                                    TextOf(under_way) + " is under way" + kWhatToDo);
}

Status CallGate::RefuseTwice(const Call& call, uint32_t part) {
  return Status::FailedPrecondition(TextOf(call) + ": part " + std::to_string(part) +
                                    " came twice, expected each part once");
}

Status CallGate::CheckIdle() const {
  const Call call = under_way();
  if (call.num_parts == 0) return Status::Ok();
  return Status::FailedPrecondition("an Attend of " + TextOf(call) + " is under way" + kWhatToDo);
}

}  // namespace attndb::internal
