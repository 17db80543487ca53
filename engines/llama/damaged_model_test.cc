// Goal:   no damage of a model's metadata ends the process: it works, or there is an error.
// Method: every field of every tiny model takes hostile values of its own and of other types, one
//         at a time, and goes missing. The check of the file refuses most; what it lets through is
//         opened and run in a child process, whose end is looked at.
// Sizes:  each third of what the check lets through is run, in a long run all of it.
// Replay: ATTNDB_SEED: which third.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "attndb/db.h"
#include "engines/llama/child_process.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/model_file.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"
#include "testing/test_size.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr rlim_t kMemoryMax = rlim_t{8} << 30;  // So that a huge allocation fails here as anywhere.
constexpr int kOpened = 0;
constexpr int kRefused = 3;
constexpr int kGaveUp = 4;  // An assertion of llama.cpp's, which the check should know.
constexpr const char* kAdapter = "llama_lora";

int Tried(const Status& status) {
  dprintf(STDERR_FILENO, "%s\n", status.ToString().c_str());
  // Inside a load llama.cpp catches the guard's exception itself, and logs its words.
  for (const char* const words : {"gave up", "GGML_ASSERT", "fatal error"}) {
    if (status.message().find(words) != std::string::npos) return kGaveUp;
  }
  return kRefused;
}

// Opens and runs the model; in a child.
int TryModel(const std::string& path, const std::string& adapter, const std::string& folder) {
  const rlimit memory = {kMemoryMax, kMemoryMax};
  setrlimit(RLIMIT_AS, &memory);
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  options.cache_dir = folder;
  if (!adapter.empty()) options.adapters.push_back({adapter});
  Result<LlamaEngine> engine = LlamaEngine::Open(path, options);
  if (!engine.ok()) return Tried(engine.status());
  const std::vector<ChatMessage> messages = {{"user", "bo?"}};
  if (engine->info().has_tokenizer) {
    const auto tokens = engine->Tokenize("ba be\n bi\xe2\x82\xac", true, true);
    if (!tokens.ok()) return Tried(tokens.status());
    if (!tokens->empty()) (void)engine->Detokenize(*tokens, true);
    (void)engine->ApplyTemplate(messages);
  }
  const Result<DB> db = DB::Open(folder + "/store", {.background_builds = false});
  if (!db.ok()) return Tried(db.status());
  const std::vector<TokenId> ids = RandomIds(9, 3, engine->info().vocab_size);
  Result<SessionStart> start = db->CreateSession(engine->spec(), ids);
  if (!start.ok()) return Tried(start.status());
  const Status run = engine->Prefill(start->session, start->rest);
  return run.ok() ? kOpened : Tried(run);
}

class DamagedModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(TinyModel(GetParam())));
    model_ = GgufParts::Of(file);
    architecture_ = file.Text("general.architecture").value_or("");
    for (int64_t id = 0; id < gguf_get_n_kv(file.context()); ++id) {
      hostile_.emplace_back(gguf_get_key(file.context(), id), HostileValues(file, id));
    }
  }

  bool is_adapter() const { return std::string_view(GetParam()) == kAdapter; }

  Status Check(const std::string& path) const {
    return is_adapter() ? CheckAdapterFile(path) : CheckModelFiles({&path, 1});
  }

  // Either the check refuses it, or a child lives through it.
  void Try(const GgufParts& damaged, const std::string& what) {
    ++num_tried_;
    const std::string path = directory_.File("damaged.gguf");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged.Bytes();
    if (!Check(path).ok()) return;
    if (++num_passed_ % test::Sized(3, 1) != 0) return;
    ++num_run_;
    const test::TempDir folder = test::TempDir::InMemory();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end,
                                RunInChild(
                                    [&] {
                                      return is_adapter()
                                                 ? TryModel(TinyModel("llama"), path, folder.path())
                                                 : TryModel(path, "", folder.path());
                                    },
                                    120));
    EXPECT_FALSE(end.timed_out) << what;
    EXPECT_EQ(end.signal, 0) << what << ": " << SignalName(end.signal) << "\n" << end.output;
    EXPECT_NE(end.exit_code, kGaveUp) << what << "\n" << end.output;
    EXPECT_TRUE(end.exit_code == kOpened || end.exit_code == kRefused)
        << what << ": " << end.exit_code << "\n"
        << end.output;
  }

  GgufParts model_;
  std::string architecture_;
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> hostile_;
  test::TempDir directory_ = test::TempDir::InMemory();
  int num_tried_ = 0;
  uint64_t num_passed_ = test::SeedOr(std::random_device()()) % 3;
  int num_run_ = 0;
};

TEST_P(DamagedModelTest, AsItIsItPassesTheCheck) {
  ATTNDB_EXPECT_OK(Check(TinyModel(GetParam())));
  const std::string path = directory_.File("same.gguf");
  std::ofstream(path, std::ios::binary) << model_.Bytes();
  ATTNDB_EXPECT_OK(Check(path));
}

TEST_P(DamagedModelTest, NoDamageOfOneFieldEndsTheProcess) {
  for (const auto& [key, values] : hostile_) {
    for (const auto& [name, value] : values) {
      GgufParts damaged = model_;
      damaged.Set(key, value);
      ASSERT_NO_FATAL_FAILURE(Try(damaged, key + " = " + name));
    }
    GgufParts damaged = model_;
    damaged.Remove(key);
    ASSERT_NO_FATAL_FAILURE(Try(damaged, "no " + key));
  }
  EXPECT_GT(num_tried_, 40);
  EXPECT_GT(num_run_, 0) << "some fields may hold anything";
  RecordProperty("tried", num_tried_);
  RecordProperty("run", num_run_);
}

// Fields that a model of another kind has.
TEST_P(DamagedModelTest, NoFieldThatIsAddedEndsTheProcess) {
  if (is_adapter()) return;
  for (const char* const key :
       {"rope.scaling.factor", "attention.sliding_window", "expert_count", "attention.causal",
        "nextn_predict_layers", "pooling_type", "attention.key_length_swa", "rope.freq_base_swa",
        "attention.key_length_mla", "expert_gating_func", "attention.sliding_window_pattern"}) {
    const bool is_real = std::string_view(key).starts_with("rope.");
    for (const uint32_t number : {0u, 1u, 1000000u, 4294967295u}) {
      GgufParts damaged = model_;
      damaged.Set(architecture_ + "." + key,
                  is_real ? GgufFloat32(-static_cast<float>(number)) : GgufUint32(number));
      ASSERT_NO_FATAL_FAILURE(Try(damaged, std::string(key) + " = " + std::to_string(number)));
    }
  }
}

TEST_P(DamagedModelTest, NoTensorThatIsChangedEndsTheProcess) {
  for (size_t i = 0; i < model_.tensors.size(); i += 1 + model_.tensors.size() / 8) {
    const std::string name = model_.tensors[i].name;
    const std::vector<uint64_t> shape = model_.tensors[i].shape;
    for (const uint32_t type : {1u, 2u, 24u, 26u, 27u, 28u, 30u}) {
      GgufParts damaged = model_;
      damaged.tensors[i].type = type;
      ASSERT_NO_FATAL_FAILURE(Try(damaged, name + " of type " + std::to_string(type)));
    }
    GgufParts damaged = model_;
    damaged.tensors[i].name = "other";
    ASSERT_NO_FATAL_FAILURE(Try(damaged, name + " with another name"));
    damaged = model_;
    damaged.tensors[i].shape = {shape.rbegin(), shape.rend()};
    ASSERT_NO_FATAL_FAILURE(Try(damaged, name + " turned"));
    damaged.tensors[i].shape.insert(damaged.tensors[i].shape.begin(), 1);
    ASSERT_NO_FATAL_FAILURE(Try(damaged, name + " with a dimension more"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedModelTest,
                         ::testing::Values("llama", "llama_yarn", "llama_spm", "llama_bpe",
                                           "llama_lora", "qwen2", "qwen3", "gemma2", "gemma3",
                                           "refuse_longrope", "refuse_mrope", "refuse_alibi",
                                           "gpt_oss", "refuse_mla", "refuse_recurrent"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(DamagedModelErrorTest, AnEngineSaysWhichFieldOfWhichFile) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(TinyModel("llama_bpe")));
  GgufParts damaged = GgufParts::Of(file);
  damaged.Set("llama.block_count", GgufUint32(1000000));
  const test::TempDir directory;
  const std::string path = directory.File("bad.gguf");
  std::ofstream(path, std::ios::binary) << damaged.Bytes();
  EXPECT_THAT(LlamaEngine::Open(path, TinyOptions(HookVariant::kRewrite)),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(path), HasSubstr("llama.block_count is 1000000"),
                              HasSubstr("expected 1 to 512"))));
}

}  // namespace
}  // namespace attndb::llama
