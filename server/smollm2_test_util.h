// An engine on SmolLM2, with its template and its words, for tests of text.
//
// Threads: one.
#ifndef ATTNDB_SERVER_SMOLLM2_TEST_UTIL_H_
#define ATTNDB_SERVER_SMOLLM2_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"

namespace attndb::server {

// The engine is opened once for each suite that derives from this.
class SmolLm2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<llama::LlamaEngine> engine = llama::LlamaEngine::Open("smollm2", {.num_threads = 1});
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    engine_ = std::make_unique<llama::LlamaEngine>(*std::move(engine));
  }
  static void TearDownTestSuite() { engine_.reset(); }

  inline static std::unique_ptr<llama::LlamaEngine> engine_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_SMOLLM2_TEST_UTIL_H_
