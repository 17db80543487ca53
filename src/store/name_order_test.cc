// Goal:   who wants a name gets it behind all that wanted it before, and waits for nobody else.
// Method: places of one name and of others, which threads wait for and give up.
#include "store/name_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>

#include "testing/event.h"

namespace attndb::store {
namespace {

TEST(NameOrderTest, APlaceWaitsForThoseBeforeIt) {
  NameOrder order;
  std::optional<NameOrder::Place> first(order.Enter("t", "a"));
  NameOrder::Place second = order.Enter("t", "a");
  first->Await();
  std::atomic<bool> is_given_up = false;
  test::Event begun;
  std::future<bool> passed = std::async(std::launch::async, [&] {
    begun.Set();
    second.Await();
    return is_given_up.load();
  });
  begun.Await();
  is_given_up = true;
  first.reset();
  EXPECT_TRUE(passed.get());
  second.Await();  // Again, at once.
}

TEST(NameOrderTest, OtherNamesDoNotWait) {
  NameOrder order;
  NameOrder::Place held = order.Enter("t", "a");
  NameOrder::Place other_name = order.Enter("t", "b");
  NameOrder::Place other_tenant = order.Enter("u", "a");
  NameOrder::Place unnamed = order.Enter("t", "");
  NameOrder::Place unnamed_too = order.Enter("t", "");
  for (NameOrder::Place* const place : {&other_name, &other_tenant, &unnamed_too, &unnamed}) {
    place->Await();
  }
}

TEST(NameOrderTest, APlaceThatIsGivenUpUnawaitedHoldsNobodyUp) {
  NameOrder order;
  std::optional<NameOrder::Place> first(order.Enter("t", "a"));
  { const NameOrder::Place middle = order.Enter("t", "a"); }
  NameOrder::Place last = order.Enter("t", "a");
  first.reset();
  last.Await();
  { const NameOrder::Place again = order.Enter("t", "a"); }
}

}  // namespace
}  // namespace attndb::store
