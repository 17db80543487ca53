#include "server/openai/embedding_answer.h"

#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <utility>

#include "server/json.h"

namespace attndb::server {
namespace {

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string BytesOfFloats(std::span<const float> values) {
  std::string bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(bits >> shift & 0xff));
    }
  }
  return bytes;
}

void AppendNumbers(std::span<const float> values, std::string* text) {
  text->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text->push_back(',');
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), values[i]).ptr;
    text->append(digits.data(), end);
  }
  text->push_back(']');
}

}  // namespace

std::string Base64Of(std::span<const float> values) {
  const std::string bytes = BytesOfFloats(values);
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = i; k < i + 3; ++k) {
      group = group << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u);
    }
    const size_t num_digits = bytes.size() - i < 3 ? bytes.size() - i + 1 : 4;
    for (size_t k = 0; k < 4; ++k) {
      text.push_back(k < num_digits ? kBase64Digits[group >> (18 - 6 * k) & 63] : '=');
    }
  }
  return text;
}

void EmbeddingAnswer::Add(std::span<const float> embedding) {
  if (size_ > 0) text_.push_back(',');
  text_ += R"({"object":"embedding","index":)" + std::to_string(size_++) + R"(,"embedding":)";
  if (base64_) {
    text_ += '"' + Base64Of(embedding) + '"';
  } else {
    AppendNumbers(embedding, &text_);
  }
  text_.push_back('}');
}

std::string EmbeddingAnswer::Finish(const std::string& model, uint64_t num_tokens) {
  const Json usage = {{"prompt_tokens", num_tokens}, {"total_tokens", num_tokens}};
  std::string body = std::exchange(text_, {});
  body += R"(],"model":)" + ToText(model) + R"(,"usage":)" + ToText(usage) + "}";
  return body;
}

}  // namespace attndb::server
