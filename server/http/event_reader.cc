#include "server/http/event_reader.h"

#include <utility>

namespace attndb::server {
namespace {

constexpr std::string_view kData = "data:";

}  // namespace

Status EventReader::Take(std::string_view bytes,
                         const std::function<Status(std::string_view data)>& on_data) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > kMaxEventBytes) {
      return Status::IoError("the server sent an event of more than 16 MiB");
    }
    if (end == std::string_view::npos) return Status::Ok();
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    const Status status = TakeLine(line_, on_data);
    line_.clear();
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

Status EventReader::TakeLine(std::string_view line,
                             const std::function<Status(std::string_view data)>& on_data) {
  if (line.starts_with(kData)) {
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
    return Status::Ok();
  }
  if (!line.empty() || !has_data_) return Status::Ok();  // A comment, or a field that we don't use.
  const std::string data = std::move(data_);
  data_.clear();
  has_data_ = false;
  return on_data(data);
}

}  // namespace attndb::server
