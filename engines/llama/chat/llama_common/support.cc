// Functions that llama.cpp's chat sources take from its common.cpp and log.cpp, which would bring
// in downloads, samplers and a thread that writes logs. Nothing is logged: a log would hold what
// users wrote.

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common.h"
#include "log.h"

void string_replace_all(std::string& text, const std::string& search, const std::string& replace) {
  if (!search.empty()) text = string_join(string_split(text, search), replace);
}

std::string string_join(const std::vector<std::string>& values, const std::string& separator) {
  std::string joined;
  for (size_t i = 0; i < values.size(); ++i) joined += (i > 0 ? separator : "") + values[i];
  return joined;
}

std::vector<std::string> string_split(const std::string& text, const std::string& delimiter) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(delimiter); end != std::string::npos;
       end = text.find(delimiter, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + delimiter.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string string_repeat(const std::string& text, size_t times) {
  std::string repeated;
  repeated.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

std::vector<llama_token> common_tokenize(const llama_vocab* vocab, const std::string& text,
                                         bool add_special, bool parse_special) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) - 2) {
    throw std::runtime_error("a text of " + std::to_string(text.size()) + " bytes is too long");
  }
  const auto tokenize = [&](std::vector<llama_token>* tokens) {
    return llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens->data(),
                          static_cast<int32_t>(tokens->size()), add_special, parse_special);
  };
  std::vector<llama_token> tokens(text.size() + 2);
  int32_t count = tokenize(&tokens);
  if (count == std::numeric_limits<int32_t>::min()) throw std::runtime_error("too many tokens");
  if (count < 0) {
    tokens.resize(static_cast<size_t>(-count));
    count = tokenize(&tokens);
  }
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

std::string common_token_to_piece(const llama_vocab* vocab, llama_token token, bool special) {
  std::string piece(16, '\0');
  const auto convert = [&] {
    return llama_token_to_piece(vocab, token, piece.data(), static_cast<int32_t>(piece.size()), 0,
                                special);
  };
  int32_t size = convert();
  if (size < 0) {
    piece.resize(static_cast<size_t>(-size));
    size = convert();
  }
  piece.resize(static_cast<size_t>(size));
  return piece;
}

int common_log_get_verbosity_thold() { return -1; }  // Below each level: no message is made.
common_log* common_log_main() { return nullptr; }
void common_log_add(common_log*, ggml_log_level, const char*, ...) {}
