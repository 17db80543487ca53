// Writes SmolLM2 with weights of 8 bits, for tests of the server and of the command line:
// quick_model FOLDER.
//
// The shipped file has Q4_1 weights, for which llama.cpp multiplies one row by one token at a time.
// It has matrix kernels for Q8_0, which read a prompt in half of the time. A Q8_0 value is as near
// to the shipped one as its rounding to 8 bits, so answers stay those of the shipped model. Tests
// of the adapter, of the package and of the documents run the shipped file itself.
//
// FOLDER is meant for ATTNDB_MODELS: the file has the name under which `smollm2` is sought there.
// Without a shipped model nothing is written, and each test says what it lacks.
#include <llama.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "attndb/result.h"
#include "engines/llama/model_file.h"

namespace fs = std::filesystem;

namespace {

bool IsWritten(const fs::path& target, const fs::path& source) {
  std::error_code error;
  return fs::exists(target, error) && fs::last_write_time(target) >= fs::last_write_time(source);
}

// Under another name until it is whole: a run that is ended leaves no half of a model.
int Write(const fs::path& source, const fs::path& target) {
  fs::create_directories(target.parent_path());
  const fs::path partial = target.string() + ".partial";
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = 1;
  params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
  params.allow_requantize = true;
  if (llama_model_quantize(source.c_str(), partial.c_str(), &params) != 0) {
    std::fprintf(stderr, "%s can't be written with weights of 8 bits\n", source.c_str());
    return 1;
  }
  fs::rename(partial, target);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quick_model FOLDER\n");
    return 2;
  }
  const attndb::Result<std::string> source = attndb::llama::ResolveModel("smollm2");
  if (!source.ok()) {
    std::printf("%s\n", source.status().message().c_str());
    return 0;
  }
  const fs::path target = fs::path(argv[1]) / fs::path(*source).filename();
  return IsWritten(target, *source) ? 0 : Write(*source, target);
}
