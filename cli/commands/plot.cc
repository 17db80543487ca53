#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "attndb/db.h"
#include "cli/commands/commands.h"
#include "cli/common/context_capture.h"
#include "cli/common/interrupt.h"
#include "cli/common/python_run.h"
#include "cli/common/table.h"
#include "cli/common/temp_dir.h"
#include "cli/common/text_input.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

// The final output of attndb.plot, as a table. Returns nothing if a field is missing or has another
// type: the package has another version.
std::optional<std::string> PlansTable(const Json& told) {
  const auto plans = told.find("plans");
  if (plans == told.end() || !plans->is_array()) return std::nullopt;
  Table table({{"PLAN"}, {"ERROR", Align::kRight}, {"READ OF FULL'S", Align::kRight}});
  for (const Json& row : *plans) {
    if (!row.is_object() || !row.contains("plan") || !row["plan"].is_string()) return std::nullopt;
    const auto number = [&row](const char* name) {
      const auto found = row.find(name);
      return found != row.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    const double share = number("bytes_per_token") / std::max(1.0, number("full_bytes_per_token"));
    table.AddRow({row["plan"].get<std::string>(), FormatFixed(100 * number("error"), 2) + " %",
                  FormatFixed(100 * share, 1) + " %"});
  }
  return table.ToText();
}

class PlotCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"source", "FILE|CONTEXT", "A KV file with q, or a stored context: name, or #id",
                /*required=*/true},
               &source_);
    flags->Add({"-o,--output", "FOLDER", "Where the pictures go; made if it is not there",
                /*required=*/true},
               &folder_);
    flags->Add({"--plan", "TEXT", "Whose critical tokens are marked (default: dipr(alpha=0.012))"},
               &plan_);
    flags->Add({"--layer", "N", "Layer of attention.png (default: a telling one)"}, &layer_, 0U,
               kNoNumber - 1);
    flags->Add({"--head", "N", "Its q head (default: a telling one)"}, &head_, 0U, kNoNumber - 1);
    flags->Add({"--queries", "N", "The newest tokens that ask (default: 16)"}, &num_queries_, 1U,
               100'000U);
    flags->Add({"--format", "FORMAT", "png (default), svg or pdf"}, &format_);
    capture_->AddFlags(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (format_ != "png" && format_ != "svg" && format_ != "pdf") {
      return Status::InvalidArgument("--format: expected png, svg or pdf, found '" + format_ + "'");
    }
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const TempDir made, TempDir::Create(""));
    std::string file = source_;
    std::error_code ignored;
    if (std::filesystem::exists(source_, ignored)) {
      if (!IsSafetensorsFile(source_)) return NoKvFile(env);
    } else {
      ATTNDB_RETURN_IF_ERROR(CheckIsContext(env));
      // Before a model is loaded: can pictures be drawn at all?
      ATTNDB_RETURN_IF_ERROR(RunPython(env, "attndb.plot", {"--help"}, [](const Json&) {}));
      file = made.path() + "/context.safetensors";
      ATTNDB_RETURN_IF_ERROR(capture_->Run(env, source_, num_queries_, file));
    }
    return Draw(env, file);
  }

 private:
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  // No file has the name.
  Status CheckIsContext(Environment* env) const {
    const Result<DB> db = env->OpenForReading();
    const Status status = db.ok() ? db->Describe(source_).status() : db.status();
    const bool can_be_none =
        status.code() == StatusCode::kNotFound || status.code() == StatusCode::kInvalidArgument;
    if (!can_be_none) return status;
    return env->WithAdvice(Status::NotFound("'" + source_ + "' is no file and no context"),
                           "name a KV file, or a stored context");
  }

  Status NoKvFile(Environment* env) const {
    return env->WithAdvice(
        Status::InvalidArgument("'" + source_ + "' is no KV file"),
        "'attndb capture' makes one of a text; where a context has that name, give its #id");
  }

  std::vector<std::string> Words(const std::string& file) const {
    std::vector<std::string> words = {
        "--json",   "--output", folder_, "--plan", plan_, "--queries", std::to_string(num_queries_),
        "--format", format_};
    if (layer_ != kNoNumber) words.insert(words.end(), {"--layer", std::to_string(layer_)});
    if (head_ != kNoNumber) words.insert(words.end(), {"--head", std::to_string(head_)});
    words.insert(words.end(), {"--", file});
    return words;
  }

  Result<ExitCode> Draw(Environment* env, const std::string& file) const {
    Json told = JsonObject({{"source", source_}, {"files", Json::array()}});
    std::optional<std::string> table;
    ATTNDB_RETURN_IF_ERROR(RunPython(env, "attndb.plot", Words(file), [&](const Json& object) {
      const auto path = object.find("file");
      if (path == object.end()) {
        table = PlansTable(object);
        told.update(object);
      } else if (path->is_string()) {
        told["files"].push_back(*path);
        env->Print(path->get<std::string>() + "\n");
      }
    }));
    if (!table) {
      return env->WithAdvice(
          Status::Unsupported(PythonProgram() + ": its attndb draws no pictures for this one"),
          "install the package of this version; ATTNDB_PYTHON names the Python");
    }
    env->PrintJson(told);
    env->Print("\n" + *table);
    return ExitCode::kOk;
  }

  std::string source_;
  std::string folder_;
  std::string plan_ = "dipr(alpha=0.012)";
  std::string format_ = "png";
  uint32_t layer_ = kNoNumber;
  uint32_t head_ = kNoNumber;
  uint32_t num_queries_ = 16;
  const std::unique_ptr<ContextCapture> capture_ = MakeContextCapture();
};

}  // namespace

std::unique_ptr<Command> MakePlot() { return std::make_unique<PlotCommand>(); }

}  // namespace attndb::cli
