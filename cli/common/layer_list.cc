#include "cli/common/layer_list.h"

#include <optional>
#include <string>

#include "cli/common/parse_number.h"

namespace attndb::cli {

Result<std::vector<LayerId>> ParseLayers(std::string_view text, uint32_t num_layers) {
  std::vector<LayerId> layers;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const size_t dash = item.find('-');
    const std::optional<uint32_t> first = ParseNumber<uint32_t>(item.substr(0, dash));
    const std::optional<uint32_t> last =
        dash == std::string_view::npos ? first : ParseNumber<uint32_t>(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= num_layers ||
        (!layers.empty() && *first <= layers.back())) {
      return Status::InvalidArgument("layers '" + std::string(text) +
                                     "', expected ascending numbers and ranges below " +
                                     std::to_string(num_layers) + ", as in 0,3,5-7");
    }
    for (uint32_t layer = *first; layer <= *last; ++layer) layers.push_back(layer);
  }
  return layers;
}

}  // namespace attndb::cli
