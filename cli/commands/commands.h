// Functions that make all commands; command_list.cc puts them in order.
#ifndef ATTNDB_CLI_COMMANDS_COMMANDS_H_
#define ATTNDB_CLI_COMMANDS_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace attndb::cli {

std::unique_ptr<Command> MakeImport();
std::unique_ptr<Command> MakeExport();
std::unique_ptr<Command> MakeAppend();
std::unique_ptr<Command> MakeAsk();
std::unique_ptr<Command> MakeChat();
std::unique_ptr<Command> MakeFind();
std::unique_ptr<Command> MakeServe();
std::unique_ptr<Command> MakeLs();
std::unique_ptr<Command> MakeDescribe();
std::unique_ptr<Command> MakeExplain();
std::unique_ptr<Command> MakeCat();
std::unique_ptr<Command> MakeMv();
std::unique_ptr<Command> MakeRm();
std::unique_ptr<Command> MakePin();
std::unique_ptr<Command> MakeTtl();
std::unique_ptr<Command> MakeQuota();
std::unique_ptr<Command> MakeDeclareEqual();
std::unique_ptr<Command> MakeVerify();
std::unique_ptr<Command> MakeBuild();
std::unique_ptr<Command> MakeCompact();
std::unique_ptr<Command> MakeStats();
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeSimulate();
std::unique_ptr<Command> MakeCapture();
std::unique_ptr<Command> MakePlot();
std::unique_ptr<Command> MakeCompletion();
std::unique_ptr<Command> MakeMan();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMANDS_COMMANDS_H_
