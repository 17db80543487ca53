// A store without sessions: a test stores tails and tokens, and finds them again as chains.
//
// Threads: one.
#ifndef ATTNDB_STORE_STORE_TEST_UTIL_H_
#define ATTNDB_STORE_STORE_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/context_store.h"
#include "testing/segment_data.h"
#include "testing/temp_dir.h"

namespace attndb::store {

class StoreTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kTokens = 40;  // Tokens of a tail.

  StoreTest();

  void Open(const DBOptions& options,
            storage::FileSystem* file_system = storage::PosixFileSystem());

  // Random rows and tokens of a tail, determined by its number.
  const test::SegmentData& Tail(uint64_t number);
  // Draws the tail with `num_tokens` tokens instead of kTokens.
  void MakeTail(uint64_t number, uint64_t num_tokens);
  // A prompt of these tails.
  std::vector<TokenId> Tokens(std::initializer_list<uint64_t> tails);
  // Stores the tails. The last one is new; the others are stored already.
  Result<Stored> Store(std::initializer_list<uint64_t> tails, const StoreOptions& options = {});
  // The stored chain of the context's first tokens.
  Prefix FirstOf(const std::string& context, uint64_t num_tokens);
  // A request that stores the tail behind the prefix; without a tail, the prefix alone.
  StoreRequest Behind(Prefix prefix, std::optional<uint64_t> tail,
                      const StoreOptions& options = {});
  // The report that the store's owner gets.
  Result<VerifyReport> VerifyAll() {
    return store_->verifier()->Verify("t", Verifier::Scope::kStore, {});
  }
  // Checks that the chain holds K of the tails, bit for bit.
  void ExpectKeys(const std::vector<storage::ChainEntry>& chain,
                  std::initializer_list<uint64_t> tails);

  const ModelSpec spec_;  // Defaults are filled in.
  const test::TempDir dir_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  const derived::Kinds kinds_ = derived::BuiltinKinds({});
  std::map<uint64_t, test::SegmentData> tails_;
  std::unique_ptr<ContextStore> store_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_STORE_TEST_UTIL_H_
