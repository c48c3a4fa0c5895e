#include "known_devices.hpp"

#include <gtest/gtest.h>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

TEST(known_devices, have_what_they_must_have) {
  const auto& dut = device_under_test::get();
  for (const auto what : required_of(dut.name()))
    EXPECT_TRUE(dut.has(what)) << dut.name() << " must have " << describe(what);
}

TEST(known_devices, are_known_by_their_names) {
  EXPECT_TRUE(required_of("soft0").contains(capability::faults));
  EXPECT_TRUE(required_of("soft_end1").contains(capability::atomics));
  EXPECT_TRUE(required_of("rxe0").contains(capability::atomics));
  EXPECT_FALSE(required_of("rxe0").contains(capability::faults));
  EXPECT_FALSE(required_of("siw0").contains(capability::atomics));
  EXPECT_TRUE(required_of("mlx5_0").empty());
}

}  // namespace

}  // namespace rdmaxx::device_tests
