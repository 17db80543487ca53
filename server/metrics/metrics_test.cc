// Goal:   what is counted is told as OpenMetrics text that a scraper takes, to the last digit.
// Method: the text is taken apart by the rules of the format that we rely on.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

// Lines of a text that ends with "# EOF", without it.
std::vector<std::string> Lines(const std::string& text) {
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  EXPECT_EQ(lines.back(), "# EOF");
  lines.pop_back();
  return lines;
}

// Values by name and labels; checks that each belongs to the family whose TYPE came last.
std::map<std::string, std::string> Samples(const std::string& text) {
  std::map<std::string, std::string> samples;
  std::set<std::string> families;
  std::string family;
  std::string type;
  for (const std::string& line : Lines(text)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "#") {
      std::string what;
      std::string name;
      words >> what >> name;
      if (what == "TYPE") {
        words >> type;
        EXPECT_TRUE(families.insert(name).second) << "twice: " << name;
        family = name;
      }
      EXPECT_EQ(name, family) << line;
      continue;
    }
    const size_t space = line.rfind(' ');
    const std::string name = line.substr(0, space);
    const std::string base = name.substr(0, name.find('{'));
    if (type == "counter") {
      EXPECT_EQ(base, family + "_total") << line;
    } else if (type == "gauge") {
      EXPECT_EQ(base, family) << line;
    } else {
      EXPECT_EQ(type, "histogram");
      EXPECT_TRUE(base == family + "_bucket" || base == family + "_sum" ||
                  base == family + "_count")
          << line;
    }
    EXPECT_TRUE(samples.emplace(name, line.substr(space + 1)).second) << "twice: " << name;
  }
  return samples;
}

TEST(MetricsTest, NothingCountedIsValidText) {
  const Metrics metrics;
  const auto samples = Samples(metrics.Render({}));
  EXPECT_EQ(samples.at("attndb_first_token_seconds_count"), "0");
  EXPECT_EQ(samples.at("attndb_token_seconds_sum"), "0");
}

TEST(MetricsTest, RequestsAreCountedByRouteAndStatus) {
  Metrics metrics;
  for (int i = 0; i < 3; ++i) metrics.CountRequest("/v1/chat/completions", 200);
  metrics.CountRequest("/v1/chat/completions", 400);
  metrics.CountRequest("", 404);
  const auto samples = Samples(metrics.Render({}));
  const auto count = [&samples](const std::string& route, const std::string& status) {
    return samples.at("attndb_requests_total{route=\"" + route + "\",status=\"" + status + "\"}");
  };
  EXPECT_EQ(count("/v1/chat/completions", "200"), "3");
  EXPECT_EQ(count("/v1/chat/completions", "400"), "1");
  EXPECT_EQ(count("", "404"), "1");
}

TEST(MetricsTest, CountersAndGaugesOfOthersAreTold) {
  const Metrics metrics;
  const std::vector<Sample> others = {{"attndb_passes", "Passes.", true, 7},
                                      {"attndb_active_turns", "Turns.", false, 2.5}};
  const std::string text = metrics.Render(others);
  const auto samples = Samples(text);
  EXPECT_EQ(samples.at("attndb_passes_total"), "7");
  EXPECT_EQ(samples.at("attndb_active_turns"), "2.5");
  EXPECT_THAT(text, HasSubstr("# HELP attndb_passes Passes.\n"));
}

TEST(MetricsTest, SamplesOfOneNameHaveOneHead) {
  const Metrics metrics;
  const std::vector<Sample> others = {{"attndb_memory_bytes", "Memory.", false, 1, R"(kind="kv")"},
                                      {"attndb_memory_bytes", "Memory.", false, 2, R"(kind="w")"}};
  const std::string text = metrics.Render(others);
  const auto samples = Samples(text);
  EXPECT_EQ(samples.at(R"(attndb_memory_bytes{kind="kv"})"), "1");
  EXPECT_EQ(samples.at(R"(attndb_memory_bytes{kind="w"})"), "2");
  EXPECT_EQ(text.find("# TYPE attndb_memory_bytes"), text.rfind("# TYPE attndb_memory_bytes"));
}

// A rate is the difference of two counts: rounded ones give zero, then a leap.
TEST(MetricsTest, LargeCountsAreExact) {
  const Metrics metrics;
  const std::vector<Sample> others = {
      {"a", "", true, 1234567891}, {"b", "", true, 999999999999999}, {"c", "", false, 100000}};
  const auto samples = Samples(metrics.Render(others));
  EXPECT_EQ(samples.at("a_total"), "1234567891");
  EXPECT_EQ(samples.at("b_total"), "999999999999999");
  EXPECT_EQ(samples.at("c"), "100000");
}

TEST(MetricsTest, BucketsCountAllBelowTheirBound) {
  Metrics metrics;
  for (const double seconds : {0.0, 0.0005, 0.00051, 0.3, 1e9}) {
    metrics.first_token_seconds.Add(seconds);
  }
  const std::string text = metrics.Render({});
  const auto samples = Samples(text);
  const auto bucket = [&samples](const std::string& bound) {
    return samples.at("attndb_first_token_seconds_bucket{le=\"" + bound + "\"}");
  };
  EXPECT_EQ(bucket("0.0005"), "2") << "a bound is within its bucket";
  EXPECT_EQ(bucket("0.001"), "3");
  EXPECT_EQ(bucket("0.256"), "3");
  EXPECT_EQ(bucket("0.512"), "4");
  EXPECT_EQ(bucket("262.144"), "4");
  EXPECT_EQ(bucket("+Inf"), "5");
  EXPECT_EQ(samples.at("attndb_first_token_seconds_count"), "5");
  EXPECT_EQ(samples.at("attndb_token_seconds_count"), "0") << "the other one's own";

  double last_bound = 0;
  uint64_t last_count = 0;
  size_t num_buckets = 0;
  for (const std::string& line : Lines(text)) {
    const std::string head = "attndb_first_token_seconds_bucket{le=\"";
    if (!line.starts_with(head)) continue;
    const std::string bound = line.substr(head.size(), line.find('"', head.size()) - head.size());
    if (bound != "+Inf") {
      EXPECT_GT(std::stod(bound), last_bound) << line;
      last_bound = std::stod(bound);
    }
    const uint64_t count = std::stoull(line.substr(line.rfind(' ') + 1));
    EXPECT_GE(count, last_count) << line;
    last_count = count;
    ++num_buckets;
  }
  EXPECT_EQ(num_buckets, Histogram::kNumBuckets + 1);
}

TEST(MetricsTest, SumsAreOfAllThatWasAdded) {
  Metrics metrics;
  for (int i = 0; i < 4; ++i) metrics.token_seconds.Add(0.25);
  EXPECT_EQ(Samples(metrics.Render({})).at("attndb_token_seconds_sum"), "1");
}

TEST(MetricsTest, ThreadsLoseNoCount) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i) {
        metrics.CountRequest("/health", 200);
        metrics.token_seconds.Add(0.001);
        if (i % 100 == 0) (void)metrics.Render({});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto samples = Samples(metrics.Render({}));
  EXPECT_EQ(samples.at(R"(attndb_requests_total{route="/health",status="200"})"), "4000");
  EXPECT_EQ(samples.at("attndb_token_seconds_count"), "4000");
}

}  // namespace
}  // namespace attndb::server
