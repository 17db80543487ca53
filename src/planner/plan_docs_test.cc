// Goal:   every plan that docs/plan.md gives as a paper's setting can be run.
// Method: every plan text of that table is parsed; the document is read from the source tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "planner/builtin_plans.h"
#include "planner/plan.h"

namespace attndb::planner {
namespace {

using ::testing::Contains;

constexpr std::string_view kTitle = "## The papers' settings";
constexpr size_t kPlanColumn = 2;

// The cells of a row of a table.
std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = line.find('|', begin);
    cells.push_back(line.substr(begin, end - begin));
    begin = end == std::string::npos ? end : end + 1;
  }
  return cells;
}

// The text between backticks.
std::vector<std::string> CodeIn(const std::string& text) {
  std::vector<std::string> code;
  size_t begin = text.find('`');
  while (begin != std::string::npos) {
    const size_t end = text.find('`', begin + 1);
    if (end == std::string::npos) break;
    code.push_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('`', end + 1);
  }
  return code;
}

// The rows of the section's table, without its head.
std::vector<std::vector<std::string>> RowsOfPapers() {
  std::ifstream file(ATTNDB_PLAN_DOCS);
  EXPECT_TRUE(file.is_open()) << ATTNDB_PLAN_DOCS;
  std::vector<std::vector<std::string>> rows;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) is_inside = line == kTitle;
    if (is_inside && line.starts_with("| ")) rows.push_back(CellsOf(line));
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

TEST(PlanDocsTest, EveryPlanOfThePapersCanBeRun) {
  const PlanRegistry registry = BuiltinPlans();
  std::vector<std::string> plans;
  for (const std::vector<std::string>& row : RowsOfPapers()) {
    ASSERT_EQ(row.size(), 4u) << row.front();
    const std::vector<std::string> of_row = CodeIn(row[kPlanColumn]);
    EXPECT_FALSE(of_row.empty()) << row.front();
    plans.insert(plans.end(), of_row.begin(), of_row.end());
  }
  for (const std::string& text : plans) {
    const Result<Plan> plan = Plan::Parse(text, registry);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  for (const char* text :
       {"full", "retrieval_attention", "auto(rules=alaya)", "pqcache",
        "alaya(beta=50,index=roargraph,walk=diprs,l0=1024,expand=all)",
        "retrieval_attention(k=2000,index=roargraph,graphs=head,budget=pyramid)"}) {
    EXPECT_THAT(plans, Contains(text));
  }
}

}  // namespace
}  // namespace attndb::planner
