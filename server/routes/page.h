// GET / and GET /page/NAME: a page for people, and what it loads.
//
// It holds no data, so that it asks for no key: what it shows, it asks the other routes for, with
// the key that its user gives. Browsers let it load and ask nothing but this server.
#ifndef ATTNDB_SERVER_ROUTES_PAGE_H_
#define ATTNDB_SERVER_ROUTES_PAGE_H_

#include <string_view>

#include "server/service.h"

namespace attndb::server {

inline constexpr std::string_view kPageFolder = "/page/";

void AnswerPage(Service* service, Call call);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_PAGE_H_
