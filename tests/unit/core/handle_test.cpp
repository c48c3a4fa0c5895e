#include <rdmaxx/core/handle.hpp>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/core/captured_log.hpp"

using namespace rdmaxx;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

/// Plays the C object. It outlives its handles here, so that a second destruction would be seen.
struct gadget {
  std::string name{};
  std::vector<std::string>* journal = nullptr;
  int result = 0;
  int errno_value = 0;
};

int destroy_gadget(gadget* native) {
  if (native->journal != nullptr) native->journal->push_back("destroy " + native->name);
  errno = native->errno_value;
  return native->result;
}

class gadget_block final : public detail::native_resource<gadget> {
 public:
  explicit gadget_block(gadget& c_object, detail::reference parent = {})
      : native_resource(destroy_gadget, "destroy_gadget"), parent_(std::move(parent)) {
    native = &c_object;
  }

 private:
  [[nodiscard]] std::string name() const override { return "gadget " + native->name; }

  detail::reference parent_;
};

class shared_gadget : public shared_handle<gadget> {
 public:
  shared_gadget() noexcept = default;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;
};

class unique_gadget : public unique_handle<gadget> {
 public:
  unique_gadget() noexcept = default;

 private:
  friend struct detail::handle_access;
  using unique_handle::unique_handle;
};

template <class Handle>
Handle handle_for(gadget& native, adoption how = {}, detail::reference parent = {}) {
  auto* const block = new gadget_block(native, std::move(parent));
  block->adopted = std::move(how);
  return detail::handle_access::make<Handle>(&native, detail::reference(block));
}

class handle_test : public testing::Test {
 protected:
  std::vector<std::string> journal;
  gadget first{.name = "first", .journal = &journal};
  gadget second{.name = "second", .journal = &journal};
};

}  // namespace

static_assert(std::is_nothrow_default_constructible_v<shared_gadget> &&
              std::is_nothrow_default_constructible_v<unique_gadget>);
static_assert(std::is_nothrow_copy_constructible_v<shared_gadget> &&
              std::is_nothrow_copy_assignable_v<shared_gadget>);
static_assert(std::is_nothrow_move_constructible_v<shared_gadget> &&
              std::is_nothrow_move_assignable_v<shared_gadget>);
static_assert(!std::is_copy_constructible_v<unique_gadget> &&
              !std::is_copy_assignable_v<unique_gadget>);
static_assert(std::is_nothrow_move_constructible_v<unique_gadget> &&
              std::is_nothrow_move_assignable_v<unique_gadget>);
static_assert(sizeof(unique_gadget) == 2 * sizeof(void*),
              "the native pointer and the reference, nothing else");

TEST_F(handle_test, an_empty_handle_has_no_object) {
  const shared_gadget shared;
  const unique_gadget unique;

  EXPECT_FALSE(shared);
  EXPECT_FALSE(unique);
  EXPECT_EQ(shared.native(), nullptr);
}

TEST_F(handle_test, the_last_copy_destroys_the_object_once) {
  std::optional<shared_gadget> one = handle_for<shared_gadget>(first);
  std::optional<shared_gadget> two = one;
  EXPECT_EQ(*one, *two);

  one.reset();
  EXPECT_THAT(journal, IsEmpty());

  two.reset();
  EXPECT_THAT(journal, ElementsAre("destroy first"));
}

TEST_F(handle_test, moving_leaves_the_source_empty_and_destroys_nothing) {
  auto source = handle_for<unique_gadget>(first);

  unique_gadget target = std::move(source);

  EXPECT_FALSE(source);  // NOLINT(bugprone-use-after-move,hicpp-invalid-access-moved): that is the
                         // question here
  EXPECT_EQ(target.native(), &first);
  EXPECT_THAT(journal, IsEmpty());
}

TEST_F(handle_test, assigning_destroys_what_was_held_before) {
  auto target = handle_for<unique_gadget>(first);

  target = handle_for<unique_gadget>(second);
  EXPECT_THAT(journal, ElementsAre("destroy first"));
  EXPECT_EQ(target.native(), &second);

  target = {};
  EXPECT_THAT(journal, ElementsAre("destroy first", "destroy second"));
}

TEST_F(handle_test, assignment_to_itself_changes_nothing) {
  auto shared = handle_for<shared_gadget>(first);
  auto unique = handle_for<unique_gadget>(second);
  const auto& same_shared = shared;
  auto& same_unique = unique;

  shared = same_shared;
  unique = std::move(same_unique);

  EXPECT_EQ(shared.native(), &first);
  EXPECT_EQ(unique.native(), &second);
  EXPECT_THAT(journal, IsEmpty());
}

TEST_F(handle_test, handles_are_equal_if_they_name_the_same_object) {
  const auto one = handle_for<shared_gadget>(first);
  const auto copy = one;
  const auto other = handle_for<shared_gadget>(second);

  EXPECT_TRUE(one == copy);
  EXPECT_FALSE(one == other);
  EXPECT_TRUE(shared_gadget() == shared_gadget());
}

TEST_F(handle_test, a_parent_outlives_its_children_whatever_the_order) {
  auto* const parent_block = new gadget_block(first);
  std::optional<shared_gadget> parent =
      detail::handle_access::make<shared_gadget>(&first, detail::reference(parent_block));
  parent_block->retain();
  std::optional<unique_gadget> child =
      handle_for<unique_gadget>(second, {}, detail::reference(parent_block));

  parent.reset();
  EXPECT_THAT(journal, IsEmpty());

  child.reset();
  EXPECT_THAT(journal, ElementsAre("destroy second", "destroy first"));
}

TEST_F(handle_test, a_block_whose_object_was_never_made_ends_without_a_destroy_call) {
  {
    auto* const block = new gadget_block(first);
    block->native = nullptr;
    const detail::reference reference(block);
  }
  EXPECT_THAT(journal, IsEmpty());
}

TEST_F(handle_test, a_borrowed_object_is_not_destroyed) {
  {
    const auto borrowed = handle_for<unique_gadget>(first, {.kind = ownership::borrowed});
  }

  EXPECT_THAT(journal, IsEmpty());
}

TEST_F(handle_test, an_adopted_object_is_destroyed_by_the_given_function) {
  {
    const auto adopted = handle_for<unique_gadget>(first, {.destroy = [this] {
                                                     journal.emplace_back("rdma_destroy");
                                                     return 0;
                                                   }});
  }
  EXPECT_THAT(journal, ElementsAre("rdma_destroy"));
}

TEST_F(handle_test, keep_alive_is_released_after_the_object_was_destroyed) {
  const std::shared_ptr<void> kept(&journal, [](void* journal_too) {
    static_cast<std::vector<std::string>*>(journal_too)->emplace_back("released");
  });
  auto released = std::make_shared<std::shared_ptr<void>>(kept);
  const auto weak = std::weak_ptr(released);
  {
    const auto adopted = handle_for<unique_gadget>(
        first, {.destroy =
                    [&] {
                      journal.emplace_back(weak.expired() ? "too early" : "destroyed");
                      return 0;
                    },
                .keep_alive = std::move(released)});
    EXPECT_FALSE(weak.expired());
  }
  EXPECT_TRUE(weak.expired());
  EXPECT_THAT(journal, ElementsAre("destroyed"));
}

TEST_F(handle_test, a_failed_destroy_leaks_the_object_with_its_parents_and_logs_both) {
  const captured_log log;
  first.result = EBUSY;
  auto* const parent = new gadget_block(second);
  auto* const leaked = new gadget_block(first, detail::reference(parent));

  {
    const auto handle =
        detail::handle_access::make<unique_gadget>(&first, detail::reference(leaked));
  }

  EXPECT_THAT(journal, ElementsAre("destroy first")) << "the parent must not be destroyed under it";
  EXPECT_THAT(log.lines(),
              ElementsAre(AllOf(HasSubstr("error: "), HasSubstr("destroy_gadget(gadget first)"),
                                HasSubstr("Device or resource busy"), HasSubstr("errno 16"))));
  delete leaked;  // the test's own memory; the library rightly never frees it
  EXPECT_THAT(journal, ElementsAre("destroy first", "destroy second"));
}

TEST_F(handle_test, a_destroy_that_returns_minus_one_is_explained_by_errno) {
  const captured_log log;
  first.result = -1;
  first.errno_value = ENXIO;
  auto* const leaked = new gadget_block(first);

  {
    const auto handle =
        detail::handle_access::make<unique_gadget>(&first, detail::reference(leaked));
  }

  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("No such device or address [errno 6]")));
  delete leaked;
}

TEST_F(handle_test, a_successful_destroy_logs_nothing) {
  const captured_log log;

  {
    const auto handle = handle_for<unique_gadget>(first);
  }

  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST_F(handle_test, retaining_succeeds_until_the_count_is_zero) {
  first.result = EBUSY;  // so that the block still exists at zero
  const captured_log log;
  auto* const block = new gadget_block(first);
  {
    const detail::reference only(block);
    ASSERT_TRUE(block->try_retain());
    block->release();
  }

  EXPECT_FALSE(block->try_retain());

  delete block;
}

TEST_F(handle_test, many_threads_copy_and_drop_handles_of_one_object) {
  std::optional<shared_gadget> shared = handle_for<shared_gadget>(first);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([mine = *shared] {
        std::vector<shared_gadget> copies;
        for (int round = 0; round < 1000; ++round) {
          copies.push_back(mine);
          if (copies.size() == 16) copies.clear();
        }
      });
    }
    shared.reset();
  }
  EXPECT_THAT(journal, ElementsAre("destroy first"));
}

TEST_F(handle_test, threads_that_try_to_retain_race_safely_with_the_last_release) {
  // An event finds its object through a C pointer just when the last handle goes: either it gets a
  // reference, and the object lives on, or it is told that it came too late.
  for (int round = 0; round < 200; ++round) {
    first.result =
        EBUSY;  // the block must be readable after the end, as the registry guarantees in real life
    const captured_log log;
    auto* const block = new gadget_block(first);
    std::atomic<int> retained = 0;
    {
      const std::jthread event([&] {
        if (!block->try_retain()) return;
        ++retained;
        block->release();
      });
      block->release();
    }
    EXPECT_LE(retained, 1);
    EXPECT_EQ(log.lines().size(), 1U) << "it ends exactly once";
    delete block;
  }
}
