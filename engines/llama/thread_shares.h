// How much of a core each of ggml's threads got during a pass, from its first call to its last.
//
// Threads: Enter and Leave: each thread by its own number. Begin and the rest: the engine's thread,
//          while no other is inside.
#ifndef ATTNDB_ENGINES_LLAMA_THREAD_SHARES_H_
#define ATTNDB_ENGINES_LLAMA_THREAD_SHARES_H_

#include <cstddef>
#include <vector>

namespace attndb::llama {

class ThreadShares {
 public:
  explicit ThreadShares(size_t num_threads) : spans_(num_threads) {}

  void Begin();
  // A number beyond num_threads is passed over.
  void Enter(int thread);
  void Leave(int thread);

  // CPU time over wall time of the threads that left: of all of them, and of the one that has
  // least. 0 and 1 if none did.
  double total() const;
  double worst() const;

 private:
  static constexpr size_t kCacheLine = 64;
  struct alignas(kCacheLine) Span {
    double wall = 0;
    double cpu = 0;
    bool is_whole = false;

    double share() const { return wall > 0 ? cpu / wall : 1; }
  };

  std::vector<Span> spans_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_THREAD_SHARES_H_
