// MakeLineEditor in a build without libedit: lines are read as they come.
#include "cli/common/line_reader.h"

namespace attndb::cli {

std::unique_ptr<LineReader> MakeLineEditor(const std::string& /*history*/) { return nullptr; }

}  // namespace attndb::cli
