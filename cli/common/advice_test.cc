// Goal:   a failure of each kind gets the advice of its kind, and one of no kind gets none.
// Method: messages as the library, the server and the command line write them. cli_mistakes makes
//         such failures happen.
#include "cli/common/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/environment.h"

namespace attndb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const FailureScene kStore = {.command = "ls", .store_path = "/data/st"};
const FailureScene kVerify = {.command = "verify", .store_path = "/data/st"};
const FailureScene kServer = {.command = "ls", .store_path = "", .through_server = true};

struct Case {
  const char* kind;
  FailureScene scene;
  Status status;
};

// One failure of each kind.
std::vector<Case> Cases() {
  return {
      {"a context that is not there", kServer, Status::NotFound("no context \"con\"")},
      {"a context that went meanwhile", kStore,
       Status::NotFound("the context is not in the store any more")},
      {"a context that has expired", kStore, Status::NotFound("context 'gone' has expired")},
      {"a name that another text has", kStore,
       Status::AlreadyExists("the name 'a' belongs to another context of 10 tokens")},
      {"a name that another context has", kServer,
       Status::AlreadyExists("context \"a\" exists (10 tokens): drop it, or store with replace")},
      {"a catalog that is missing", kStore,
       Status::Corruption("'st' holds segments but no catalog.db; put the catalog back, or open "
                          "another folder")},
      {"a catalog file that is damaged", kVerify,
       Status::Corruption("/data/st/catalog.db: not a catalog")},
      {"a row of the catalog that is damaged", kStore,
       Status::Corruption("catalog: context 7: uses 3 tokens of segment 2")},
      {"a context that is damaged", kStore,
       Status::Corruption("context 'a' is damaged (see describe); import its text again under "
                          "this name")},
      {"damage that verify meets", kVerify,
       Status::Corruption("/data/st/segments/7.seg: checksum")},
      {"a file of the store that is damaged", kStore,
       Status::Corruption("/data/st/segments/7.seg: checksum")},
      {"a segment that is damaged", kServer,
       Status::Corruption("segment 7 holds other tokens than the catalog says")},
      {"a quota that is used up", kServer,
       Status::ResourceExhausted("tenant 'default': quota of 1 MiB; 1 MiB are used")},
      {"a server that is busy", kServer,
       Status::ResourceExhausted("too many requests wait for memory already; try again later")},
      {"a disk that is full", kStore,
       Status::ResourceExhausted("/data/st/segments: the disk has 1 KiB free, 2 KiB are "
                                 "needed")},
      {"a disk that fills up meanwhile", kStore,
       Status::ResourceExhausted("/data/st/catalog.db: write: No space left on device")},
      {"a user's part of the disk that is full", kStore,
       Status::ResourceExhausted("/data/st/catalog.db: write: Disk quota exceeded")},
      {"too many open files", kStore,
       Status::ResourceExhausted("/data/st/LOCK: open: Too many open files")},
      {"memory that lacks", kStore, Status::ResourceExhausted("there is not enough memory")},
      {"a store that another process writes to", kStore,
       Status::Busy("/data/st/LOCK: is locked by process 7 (attndb)")},
      {"a context that a server appends to", kServer,
       Status::Busy("another text is being appended to 'a'")},
      {"a store that can't be written to", kStore,
       Status::ReadOnly("/data/st: mkdir: Permission denied")},
      {"a port that is taken", kStore,
       Status::IoError("can't listen on 127.0.0.1 port 8080: Address already in use")},
      {"an address that can't be listened on", kStore,
       Status::IoError("can't listen on 10.0.0.1 port 80: Cannot assign requested address")},
      {"a disk that is not mounted", kStore,
       Status::IoError("/data/st/segments: has none of the files that catalog.db knows, 7: is "
                       "its disk mounted? Until it is, the store can be opened read-only")},
      {"a store that was moved away", kStore,
       Status::IoError("/data/st: was moved, replaced or removed while the store was open: "
                       "nothing is stored; close the store, and open it where it lies")},
      {"a file of the store that can't be read", kStore,
       Status::IoError("/data/st/segments/7.seg: read: Input/output error")},
      {"a context of another model than the server's", kServer,
       Status::OtherModel("'a' is of another model")},
      {"a context of another model", kStore, Status::OtherModel("'a' is of another model")},
      {"a fault of attndb", kStore, Status::Internal("a number that can't be")},
  };
}

TEST(AdviceTest, AFailureOfEachKindGetsTheAdviceOfItsKind) {
  std::set<std::string> seen;
  for (const Case& one : Cases()) {
    seen.insert(one.kind);
    const AdviceEntry* meant = nullptr;
    for (const AdviceEntry& entry : AdviceTable()) {
      if (std::string(entry.kind) == one.kind) meant = &entry;
    }
    ASSERT_NE(meant, nullptr) << one.kind;
    EXPECT_EQ(AdviceFor(one.status, one.scene).data(), meant->advice) << one.kind;
  }
  EXPECT_EQ(seen.size(), AdviceTable().size()) << "each kind has a case";
}

TEST(AdviceTest, WhatIsOfNoKindGetsNone) {
  for (const Status& status :
       {Status::NotFound("cannot open 'a.txt': No such file or directory"),
        Status::NotFound("model 'qwen99': no such file"),
        Status::NotFound("keys file 'k.json' does not exist"),
        Status::AlreadyExists("file 'x' exists; remove it, or choose another name"),
        Status::Corruption("/tmp/x.safetensors: expected 10 more bytes at offset 3"),
        Status::ResourceExhausted("no pipe for Python: Resource temporarily unavailable"),
        Status::ReadOnly("/tmp/x: open: Permission denied"),
        Status::IoError("cannot read 'a.txt': Input/output error"),
        Status::IoError("cannot open '/data/store.txt': Permission denied"),
        Status::InvalidArgument("the question is empty"), Status::Cancelled("interrupted"),
        Status::Unsupported("no engine"), Status::FailedPrecondition("a failed session")}) {
    EXPECT_EQ(AdviceFor(status, kStore), "") << status;
  }
}

TEST(AdviceTest, NoAdviceSendsTheUserInACircle) {
  for (const Case& one : Cases()) {
    if (one.scene.command == kVerify.command) {
      EXPECT_THAT(std::string(AdviceFor(one.status, one.scene)), Not(HasSubstr("verify")));
    }
    if (!one.scene.through_server) continue;
    for (const char* flag : {"--db", "--wait", "--model", "doctor"}) {
      EXPECT_THAT(std::string(AdviceFor(one.status, one.scene)), Not(HasSubstr(flag)))
          << "a server's client can't do that";
    }
  }
}

TEST(AdviceTest, AdviceForAFailureThatWasOvercomeIsForNoOther) {
  Environment env(CommonOptions{.db_path = "/data/st"});
  const Status busy = env.WithAdvice(Status::Busy("x is locked"), "ask that server");
  EXPECT_EQ(env.AdviceOn(busy), "ask that server");
  EXPECT_EQ(env.AdviceOn(busy.WithContext("import")), "ask that server");
  EXPECT_EQ(env.AdviceOn(Status::NotFound("no context \"a\"")), "'attndb ls' lists what there is");
  EXPECT_EQ(env.AdviceOn(Status::InvalidArgument("the question is empty")), "");
}

TEST(AdviceTest, AStoresPathIsNoPartOfAWord) {
  const FailureScene scene = {.command = "ls", .store_path = "st"};
  EXPECT_EQ(AdviceFor(Status::IoError("cannot read the list: st ill"), scene), "");
  EXPECT_EQ(AdviceFor(Status::IoError("last/x: read: Input/output error"), scene), "");
  EXPECT_NE(AdviceFor(Status::IoError("st/LOCK: open: Permission denied"), scene), "");
  EXPECT_NE(AdviceFor(Status::IoError("cannot open 'st': Permission denied"), scene), "");
}

}  // namespace
}  // namespace attndb::cli
