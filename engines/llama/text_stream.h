// Turns the pieces of tokens into text that can be shown as it comes: whole UTF-8 characters only,
// and nothing that may still turn out to be the beginning of a stop string.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_TEXT_STREAM_H_
#define ATTNDB_ENGINES_LLAMA_TEXT_STREAM_H_

#include <string>
#include <string_view>
#include <vector>

namespace attndb::llama {

class TextStream {
 public:
  // Empty stop strings are ignored.
  explicit TextStream(std::vector<std::string> stop);

  // Adds a token's bytes. Gives what can be shown now; after a stop string nothing more.
  std::string Push(std::string_view piece);

  // The rest, when no more tokens come: an unfinished character becomes U+FFFD.
  std::string Finish();

  bool stopped() const { return stopped_; }
  const std::string& stop() const { return found_; }  // The stop string that came; empty: none.
  const std::string& text() const { return text_; }   // All text that was given out.

 private:
  std::string Emit(size_t num_bytes);
  size_t SafeBytes() const;

  std::vector<std::string> stop_;
  std::string pending_;  // Text that was not given out yet.
  std::string text_;
  bool stopped_ = false;
  std::string found_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TEXT_STREAM_H_
