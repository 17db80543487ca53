// Helpers for tests of a whole server: a server on a tiny random model, with a store of the test's
// own, and a client that asks this server over HTTP.
//
// Threads: one.
#ifndef ATTNDB_SERVER_ROUTES_TINY_SERVER_TEST_UTIL_H_
#define ATTNDB_SERVER_ROUTES_TINY_SERVER_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engines/llama/engine_test_util.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/json.h"
#include "server/server.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {

class TinyServerTest : public ::testing::Test {
 protected:
  llama::EngineOptions Engine() const {
    llama::EngineOptions engine = llama::TinyOptions(llama::HookVariant::kRewrite);
    engine.cache_dir = directory_.File("cache");
    return engine;
  }
  static ServerOptions Options() {
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.window_tokens = 4096;
    return options;
  }
  // In place of the one that runs, if one does.
  void StartServer(const llama::EngineOptions& engine, const ServerOptions& options) {
    server_.reset();
    auto server = Server::Start(*llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), engine),
                                *DB::Open(directory_.File("store"), {}), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }

  ClientAnswer Try(const std::string& method, const std::string& path, const Json& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    Result<ClientAnswer> sent =
        (*client)->Send({.method = method, .path = path, .body = ToText(body)});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    return *std::move(sent);
  }
  // Expects a 200.
  ClientAnswer Send(const std::string& method, const std::string& path, const Json& body) const {
    ClientAnswer answer = Try(method, path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer;
  }
  Json Ask(const std::string& path, const Json& body) const {
    return *ParseJson(Send("POST", path, body).body);
  }

  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_TINY_SERVER_TEST_UTIL_H_
