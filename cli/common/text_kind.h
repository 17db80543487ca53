// Names the kind of a file that is not UTF-8 text: by its first bytes, or by the likely encoding of
// all bytes. Also names the shell command that converts it to text.
//
// Trust:   hostile: bytes are compared and counted, and nothing is decoded.
// Errors:  none: unknown kinds have no name.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TEXT_KIND_H_
#define ATTNDB_CLI_COMMON_TEXT_KIND_H_

#include <string>
#include <string_view>

namespace attndb::cli {

struct FileKind {
  std::string_view name;  // "a PDF document".
  // Prints the text of FILE, which stands for the path; empty: no program is known that does.
  std::string_view command;
  // Tells another way to use the file. Empty: there is none.
  std::string_view advice;
  // True: the first bytes decide, even if all bytes are valid text, as in "%PDF-1.7".
  bool is_never_text = false;
};

// Whether a file begins like a safetensors file: eight bytes of length, then JSON
// (https://github.com/huggingface/safetensors).
bool BeginsAsSafetensors(std::string_view bytes);

// The kind of a file with these bytes, of which 64 KiB are enough for most; null: none is known.
const FileKind* KindOfFile(std::string_view bytes);

// The encoding, as iconv calls it, that this text is most likely in, which is no UTF-8 or has a
// byte 0; empty: no guess. UTF-16 and UTF-32; latin1, windows-1252; windows-1251, KOI8-R, IBM866;
// ISO-8859-7 (Greek), ISO-8859-8 (Hebrew); EUC-JP, SHIFT_JIS, GB18030, BIG5, EUC-KR.
std::string_view GuessEncoding(std::string_view text);

// `text` as one word of a POSIX shell.
std::string ShellWord(std::string_view text);

// An option of a program and its value, which may begin with '-'.
std::string ShellOption(std::string_view option, std::string_view value);

// `command` with the file in its place; "-", stdin, has none, and FILE stays.
std::string CommandFor(std::string_view command, const std::string& path);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEXT_KIND_H_
