#include "server/routes/page.h"

#include <algorithm>
#include <string>

#include "server/openai/error.h"
#include "server/page/page_files.h"

namespace attndb::server {
namespace {

constexpr std::string_view kIndex = "index.html";

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char* TypeOf(std::string_view name) {
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".txt")) return "text/plain; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

void AnswerPage(Service* service, Call call) {
  std::string_view name = call.request->path;
  name = name.starts_with(kPageFolder) ? name.substr(kPageFolder.size()) : kIndex;
  const auto is_name = [name](const PageFile& file) { return file.name == name; };
  const auto files = PageFiles();
  const auto file = std::find_if(files.begin(), files.end(), is_name);
  if (file == files.end()) {
    return AnswerCall(service, call, ErrorResponse(404, "there is no " + call.request->path));
  }
  AnswerCall(service, call,
             {.content_type = TypeOf(name),
              .headers = {{"Content-Security-Policy", kPolicy},
                          {"X-Content-Type-Options", "nosniff"},
                          {"Referrer-Policy", "no-referrer"},
                          {"Cache-Control", "no-cache"}},  // Another build may answer next time.
              .body = std::string(file->text)});
}

}  // namespace attndb::server
