// The answer to a request for embeddings: {"object": "list", "data": [...], "model", "usage"}.
//
// Entries are written as they come, so that the answer is in memory once, as text.
//
// Threads: thread-compatible.
#ifndef ATTNDB_SERVER_OPENAI_EMBEDDING_ANSWER_H_
#define ATTNDB_SERVER_OPENAI_EMBEDDING_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attndb::server {

// The numbers' bytes, as float32 with the lowest byte first, in base64 with padding (RFC 4648, 4).
std::string Base64Of(std::span<const float> values);

class EmbeddingAnswer {
 public:
  // Numbers are written with as many digits as tell one float32 from the next; in base64 as bytes.
  explicit EmbeddingAnswer(bool base64) : base64_(base64) {}

  // The next input's. REQUIRES: the values are finite.
  void Add(std::span<const float> embedding);
  size_t size() const { return size_; }

  // The whole body; there is nothing left here then.
  std::string Finish(const std::string& model, uint64_t num_tokens);

 private:
  const bool base64_;
  size_t size_ = 0;
  std::string text_ = R"({"object":"list","data":[)";  // As far as it goes.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_EMBEDDING_ANSWER_H_
