// Where a rendered prompt shows the contents of its messages.
//
// A template may trim a content, change it or leave it out. A content is then where its trimmed
// words are, or nowhere: an empty range behind the content before it.
//
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_MESSAGE_PLACES_H_
#define ATTNDB_ENGINES_LLAMA_MESSAGE_PLACES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

// Stands for the content of message `idx`: no template has it, and none changes it.
std::string Placeholder(size_t idx);
inline constexpr char kPlaceholder[] = "attndb7c1econtent";  // Each begins so.

// Finds the contents in order. nullopt: there is more than one way, as for a content "user" that
// the template's own text has, too.
std::optional<std::vector<ByteRange>> PlacesByWords(std::string_view prompt,
                                                    std::span<const std::string> contents);

// Finds the contents by the same prompt with placeholders for them; a content without bytes has no
// placeholder. nullopt: both prompts differ elsewhere.
std::optional<std::vector<ByteRange>> PlacesByMarkup(std::string_view prompt,
                                                     std::string_view markup,
                                                     std::span<const std::string> contents);

// Each content where it comes first behind the one before it.
std::vector<ByteRange> FirstPlaces(std::string_view prompt, std::span<const std::string> contents);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_MESSAGE_PLACES_H_
