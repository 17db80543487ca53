// Goal:   nobody waits for what another's request waits for; what is done for a tenant's request
//         does not tell what another has stored; the limit of the start holds beside a keys file's.
// Method: a server on a tiny random model, asked over HTTP; conversations are on disk alone, once
//         another server has stored them, and what reads them waits for the test. Clients that
//         read nothing, for whom the kernel holds little; when their writes time out, their replies
//         are cut off, which shows that these were waited for.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/fingerprint.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/json.h"
#include "testing/event.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Tells when segments that a store has now are opened or read.
class SegmentWatch {
 public:
  explicit SegmentWatch(const std::string& store)
      : inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store)) {
      if (entry.path().extension() != ".seg") continue;
      EXPECT_GE(inotify_add_watch(inotify_, entry.path().c_str(), IN_OPEN | IN_ACCESS), 0);
      ++num_segments_;
    }
  }
  ~SegmentWatch() { close(inotify_); }
  SegmentWatch(const SegmentWatch&) = delete;
  SegmentWatch& operator=(const SegmentWatch&) = delete;

  size_t num_segments() const { return num_segments_; }
  // Whether one was since the last call.
  bool Take() {
    alignas(inotify_event) char events[4096];
    bool any = false;
    while (read(inotify_, events, sizeof(events)) > 0) any = true;
    return any;
  }

 private:
  const int inotify_;
  size_t num_segments_ = 0;
};

// Counts the open sockets of this process: those of its clients and of the server. Only this count
// shows that the server has closed a connection whose client reads nothing.
size_t NumSockets() {
  size_t num_sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // The iterator's own descriptor may be closed by now.
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) ++num_sockets;
  }
  return num_sockets;
}

class ServerTest : public ::testing::Test {
 protected:
  void Start(std::function<Status(Session*)> load = nullptr) {
    llama::EngineOptions engine = llama::TinyOptions(llama::HookVariant::kRewrite);
    engine.cache_dir = directory_.File("cache");
    ServerOptions options = options_;
    options.listener.port = 0;
    options.conversations.load = std::move(load);
    options.plan = "full";
    auto server = Server::Start(*llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), engine),
                                *DB::Open(directory_.File("store"), {}), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }
  void Stop() {
    server_->Stop(kPatience);
    server_.reset();
  }

  // The status of an answer; 0: there was none within some seconds.
  int Ask(const std::string& method, const std::string& path, const std::string& body,
          std::chrono::seconds patience, std::string* answer = nullptr) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .key = key_,
                                .silence_timeout = patience});
    if (!client.ok()) return 0;
    const Result<ClientAnswer> sent =
        (*client)->Send({.method = method, .path = path, .body = body});
    if (sent.ok() && answer != nullptr) *answer = sent->body;
    return sent.ok() ? sent->status : 0;
  }
  int Complete(const std::string& prompt, std::chrono::seconds patience,
               std::string* answer = nullptr) const {
    const Json body = {{"prompt", prompt}, {"max_tokens", 2}, {"ignore_eos", true}};
    return Ask("POST", "/v1/completions", ToText(body), patience, answer);
  }

  // A number of /metrics; -1: it has none.
  double Metric(const std::string& name) const {
    std::string text;
    EXPECT_EQ(Ask("GET", "/metrics", "", kPatience, &text), 200);
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  // What a completion adds to the counters that tell of work, by their names; and its tokens.
  std::map<std::string, double> WorkOf(const std::string& prompt) const {
    constexpr const char* kCounters[] = {
        "attndb_prompt_tokens_total",      "attndb_cached_tokens_total",
        "attndb_declined_tokens_total",    "attndb_passes_total",
        "attndb_pass_prompt_tokens_total", "attndb_pass_reply_tokens_total"};
    std::map<std::string, double> work;
    for (const char* const counter : kCounters) work[counter] = -Metric(counter);
    EXPECT_EQ(Complete(prompt, kPatience), 200);
    for (const char* const counter : kCounters) work[counter] += Metric(counter);
    return work;
  }

  ServerOptions options_;
  std::string key_;  // With which requests are sent; empty: with none.
  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, WhatIsReadFromDiskHoldsUpNobodyElse) {
  const std::vector<std::string> cold = {"The bakery opens at six and sells rye bread.",
                                         "Nine boats have room in the harbour.",
                                         "A ferry runs to the mainland on Tuesdays."};
  Start();
  for (const std::string& text : cold) ASSERT_EQ(Complete(text, kPatience), 200);
  Stop();

  // Any prompt begins as stored ones do, and reads so much: the disk is slow for long ones alone.
  constexpr uint64_t kLong = 5;
  Event go;
  std::atomic<size_t> num_reading = 0;
  Start([&](Session* session) {
    if (session->num_tokens() >= kLong) {
      ++num_reading;
      go.Await();
    }
    return session->Load();
  });
  std::vector<std::string> answers(cold.size());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < cold.size(); ++i) {
    clients.emplace_back(
        [&, i] { EXPECT_EQ(Complete(cold[i] + " Who", kPatience, &answers[i]), 200) << cold[i]; });
  }
  EXPECT_TRUE(Eventually([&] { return num_reading == cold.size(); }));
  // A request that waited for the disk would wait until `go`.
  EXPECT_EQ(Ask("GET", "/metrics", "", kPatience), 200);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"content":"a"})", kPatience), 200);
  EXPECT_EQ(Ask("GET", "/attndb/v1/contexts", "", kPatience), 200);
  EXPECT_EQ(Complete("Sheep graze on the hills.", kPatience), 200);
  go.Set();
  for (std::thread& client : clients) client.join();
  for (const std::string& answer : answers) {
    const Result<Json> json = ParseJson(answer);
    ATTNDB_ASSERT_OK(json.status());
    EXPECT_GT((*json)["usage"]["prompt_tokens_details"]["cached_tokens"], kLong) << answer;
  }
}

// A time that told them apart would tell a tenant what another has asked.
TEST_F(ServerTest, WhatAnotherTenantHasStoredChangesNothingThatIsDone) {
  const auto entry = [](const std::string& name, bool is_operator) {
    return Json{{"sha256", *llama::TextDigest(name)}, {"tenant", name}, {"operator", is_operator}};
  };
  options_.keys_file = directory_.File("keys.json");
  std::ofstream(options_.keys_file)
      << ToText({{"keys", Json::array({entry("ann", false), entry("bob", true)})}});
  const auto prompt = [](char number) {
    return std::string(1, number) + " The bakery opens at six and sells rye bread.";
  };
  Start();
  key_ = "ann";
  ASSERT_EQ(Complete(prompt('1'), kPatience), 200);
  Stop();
  SegmentWatch segments(directory_.File("store"));
  ASSERT_GT(segments.num_segments(), 0u);

  Start();
  key_ = "bob";
  ASSERT_EQ(Complete(prompt('2'), kPatience), 200);  // Some prompt of its own begins alike.
  (void)segments.Take();
  const auto miss = WorkOf(prompt('3'));
  const auto hit = WorkOf(prompt('1'));
  EXPECT_EQ(hit, miss);
  EXPECT_GT(hit.at("attndb_pass_prompt_tokens_total"), 5) << "all of it is run";
  EXPECT_FALSE(segments.Take()) << "a file of another tenant is opened or read";

  key_ = "ann";
  std::string answer;
  EXPECT_EQ(Complete(prompt('1') + " Who", kPatience, &answer), 200);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(answer));
  EXPECT_GT(json["usage"]["prompt_tokens_details"]["cached_tokens"], 5) << answer;
  EXPECT_TRUE(segments.Take()) << "whose they are reads them, and that would be seen";
}

TEST_F(ServerTest, TheQuotaIsTheDefaultTenantsUnlessTheKeysFileLimitsIt) {
  const auto quota = [this] {
    std::string answer;
    EXPECT_EQ(Ask("GET", "/attndb/v1/contexts", "", kPatience, &answer), 200);
    const Result<Json> json = ParseJson(answer);
    return json.ok() ? (*json)["quota_bytes"].get<uint64_t>() : 0;
  };
  const auto write_limit = [this](uint64_t bytes) {
    const Json entry = {
        {"sha256", *llama::TextDigest("k")}, {"tenant", "default"}, {"quota_bytes", bytes}};
    const std::string next = directory_.File("keys.next");
    std::ofstream(next) << ToText({{"keys", Json::array({entry})}});
    std::filesystem::rename(next, options_.keys_file);
  };
  options_.quota_bytes = 50'000'000;
  Start();
  EXPECT_EQ(quota(), 50'000'000u);
  Stop();
  options_.quota_bytes.reset();
  Start();
  EXPECT_EQ(quota(), 50'000'000u) << "the store keeps it";
  Stop();
  options_.quota_bytes = 0;
  Start();
  EXPECT_EQ(quota(), 0u) << "it is taken away";
  Stop();

  options_.keys_file = directory_.File("keys.json");
  write_limit(40'000'000);
  options_.quota_bytes = 50'000'000;
  key_ = "k";
  Start();
  EXPECT_EQ(quota(), 40'000'000u);
  write_limit(0);
  EXPECT_TRUE(Eventually([&] { return quota() == 50'000'000; })) << "the file has no limit now";
}

TEST_F(ServerTest, AQuotaThatLimitsNobodyIsRefused) {
  options_.keys_file = directory_.File("keys.json");
  const Json entry = {{"sha256", *llama::TextDigest("ann")}, {"tenant", "ann"}};
  std::ofstream(options_.keys_file) << ToText({{"keys", Json::array({entry})}});
  options_.quota_bytes = 1'000'000;
  EXPECT_THAT(CheckKeys(options_), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'default'")));
  options_.api_key = "secret";
  ATTNDB_EXPECT_OK(CheckKeys(options_)) << "this key is of the default tenant";
}

TEST_F(ServerTest, KnowsWhoMayAskIt) {
  const auto is_open = [](const std::string& address, const std::string& file,
                          const std::string& key) {
    ServerOptions options;
    options.listener.address = address;
    options.keys_file = file;
    options.api_key = key;
    return IsOpenToNetwork(options);
  };
  EXPECT_TRUE(is_open("0.0.0.0", "", ""));
  EXPECT_FALSE(is_open("0.0.0.0", "keys.json", ""));
  EXPECT_FALSE(is_open("0.0.0.0", "", "secret"));
  EXPECT_FALSE(is_open("127.0.0.1", "", ""));
}

TEST_F(ServerTest, FiftyReadersThatTakeNothingHoldUpNobody) {
  options_.listener.write_timeout = std::chrono::seconds(2);
  options_.model_id =
      std::string(1000, 'm');  // It is in each event, so that replies are long soon.
  Start();
  const Json body = {{"prompt", "Sheep graze on the hills."},
                     {"max_tokens", 60},
                     {"ignore_eos", true},
                     {"stream", true}};
  const std::string request = Post("/v1/completions", ToText(body));
  const size_t num_before = NumSockets();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(server_->port(), RawClient::Narrow()));
    ASSERT_TRUE(slow.back()->Send(request));
  }
  const auto others_go_on = [&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Complete("Nine boats, " + std::to_string(i), kPatience), 200);
    }
    RawClient reader(server_->port());
    EXPECT_THAT(reader.Ask(request).body, HasSubstr("[DONE]"));
  };
  others_go_on();
  EXPECT_TRUE(Eventually(
      [&] { return Metric("attndb_active_turns") == 0 && Metric("attndb_waiting_turns") == 0; }));
  others_go_on();  // Now that nothing is left of the fifty but what they do not read.
  EXPECT_TRUE(Eventually([&] { return NumSockets() <= num_before + slow.size(); }))
      << "their writes time out: the server closes its ends";
  for (const auto& client : slow) {
    const std::string read = client->ReadAll();
    EXPECT_THAT(read, HasSubstr("data: "));
    EXPECT_THAT(read, Not(HasSubstr("[DONE]"))) << "all of it fitted: no write was waited for";
  }
}

}  // namespace
}  // namespace attndb::server
