// Goal:   every file of the page is served as what it is, under a policy that lets it load and ask
//         nothing but this server; no other name is a file.
// Method: the route itself, with a responder that keeps the answer.
#include "server/routes/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "server/page/page_files.h"

namespace attndb::server {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class KeptAnswer final : public Responder {
 public:
  void Send(Response response) override { response_ = std::move(response); }
  void Begin(Response) override { FAIL(); }
  void Write(std::string) override { FAIL(); }
  void End() override { FAIL(); }
  bool closed() const override { return false; }
  void OnClosed(std::function<void()>) override {}

  const Response& response() const { return response_; }

 private:
  Response response_ = {.status = 0};
};

Response Get(const std::string& path) {
  Metrics metrics;
  RequestLog log(LogFormat::kOff, stderr);
  Service service;
  service.metrics = &metrics;
  service.log = &log;
  auto request = std::make_shared<Request>();
  request->method = "GET";
  request->path = path;
  auto responder = std::make_shared<KeptAnswer>();
  Call call;
  call.request = std::move(request);
  call.responder = responder;
  call.route = "/";
  AnswerPage(&service, std::move(call));
  return responder->response();
}

TEST(PageTest, TheRootIsThePage) {
  const Response page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(page.body, Get("/page/index.html").body);
}

TEST(PageTest, EachFileIsServedAsWhatItIs) {
  for (const PageFile& file : PageFiles()) {
    const Response response = Get("/page/" + std::string(file.name));
    EXPECT_EQ(response.status, 200) << file.name;
    EXPECT_EQ(response.body, file.text);
    EXPECT_THAT(response.content_type, HasSubstr(file.name.ends_with(".js")    ? "javascript"
                                                 : file.name.ends_with(".css") ? "css"
                                                 : file.name.ends_with(".txt") ? "plain"
                                                                               : "html"));
    EXPECT_THAT(response.headers, Contains(Pair("X-Content-Type-Options", "nosniff")));
    EXPECT_THAT(response.headers,
                Contains(Pair("Content-Security-Policy",
                              AllOf(StartsWith("default-src 'none'; script-src 'self'; "),
                                    Not(HasSubstr("unsafe")), Not(HasSubstr("http"))))));
  }
}

TEST(PageTest, NothingNamesAnotherServer) {
  for (const PageFile& file : PageFiles()) {
    if (file.name.starts_with("marked")) continue;  // Comments and patterns have addresses.
    for (const char* const elsewhere : {"https://", "src=\"//", "url(", "innerHTML", "eval("}) {
      EXPECT_THAT(file.text, Not(HasSubstr(elsewhere))) << file.name;
    }
  }
}

TEST(PageTest, TheReaderOfMarkdownIsTheLibraryWhichTouchesNoDocument) {
  const std::string marked = Get("/page/marked.js").body;
  EXPECT_THAT(marked, StartsWith("/**\n * marked - a markdown parser"));
  for (const char* const word : {"innerHTML", "eval(", "document", "fetch(", "XMLHttpRequest"}) {
    EXPECT_THAT(marked, Not(HasSubstr(word)));
  }
}

TEST(PageTest, TheLicenseOfTheLibraryIsThereInFull) {
  const std::string license = Get("/page/marked-license.txt").body;
  for (const char* const words :
       {"Copyright (c) 2011-2022, Christopher Jeffrey", "Copyright (c) 2018+, MarkedJS",
        "Permission is hereby granted, free of charge,", "shall be included in\nall copies",
        "THE SOFTWARE IS PROVIDED \"AS IS\"", "DEALINGS IN\nTHE SOFTWARE."}) {
    EXPECT_THAT(license, HasSubstr(words));
  }
  EXPECT_THAT(Get("/page/marked.js").body, HasSubstr("2011-2022, Christopher Jeffrey"))
      << "the license names the authors of this version";
}

TEST(PageTest, OtherNamesAreNotFound) {
  for (const char* const path :
       {"/page/", "/page/none.js", "/page/../server.cc", "/page//page.js"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
}

}  // namespace
}  // namespace attndb::server
