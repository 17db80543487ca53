#include "server/routes/appends.h"

namespace attndb::server {

Result<std::shared_ptr<void>> Appends::Begin(const std::string& tenant,
                                             const std::string& context) {
  auto name = std::make_unique<Name>(tenant, context);
  {
    const std::lock_guard lock(mutex_);
    if (!under_way_.insert(*name).second) {
      return Status::Busy("another text is being appended to '" + context + "'");
    }
  }
  return std::shared_ptr<void>(name.release(), [this](void* ended) {
    const std::unique_ptr<Name> held(static_cast<Name*>(ended));
    const std::lock_guard lock(mutex_);
    under_way_.erase(*held);
  });
}

}  // namespace attndb::server
