#pragma once

// device_under_test: the device that this run of the suite is about.
//
// The environment variable RDMAXX_TEST_DEVICE names it. Its capabilities are determined once, by
// querying or trying the device; the few devices that report something else than they do are listed
// in device_under_test.cpp.
//
// A test that needs something says so first, and is skipped with the reason where it is missing,
// unless known_devices.cpp says that this device must have it:
//
//   TEST_F(atomics, …) {
//     RDMAXX_NEEDS(capability::atomics);

#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "capability.hpp"
#include "known_devices.hpp"
#include "netdev.hpp"

namespace rdmaxx::device_tests {

class device_under_test {
 public:
  /// Probed at the first call; throws if there is no such device.
  [[nodiscard]] static const device_under_test& get();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] context open() const;
  [[nodiscard]] const device_attributes& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const std::optional<device_tests::netdev>& netdev() const noexcept {
    return netdev_;
  }
  /// An address that is not reached over the device's interface.
  [[nodiscard]] std::string address_elsewhere() const {
    const bool loopback = netdev_ && netdev_->name == "lo";
    return loopback ? "203.0.113.1" : "127.0.0.1";
  }
  [[nodiscard]] bool is_iwarp() const noexcept { return iwarp_; }
  [[nodiscard]] bool has(capability what) const noexcept { return capabilities_.contains(what); }

 private:
  device_under_test();

  std::string name_;
  device_attributes attributes_;
  std::optional<device_tests::netdev> netdev_;
  bool iwarp_ = false;
  std::set<capability> capabilities_;
};

/// The fixture of every test: a context of its own.
class device_test : public ::testing::Test {
 protected:
  const device_under_test& dut = device_under_test::get();  // NOLINT(readability-identifier-naming)
  context ctx = dut.open();                                 // NOLINT(readability-identifier-naming)
};

}  // namespace rdmaxx::device_tests

// A macro because it ends the test function. What a known device must have is no reason to skip.
#define RDMAXX_NEEDS(what)                                             \
  if (const auto& named = device_under_test::get(); named.has(what)) { \
  } else if (required_of(named.name()).contains(what))                 \
    GTEST_FAIL() << named.name() << " must have " << describe(what)    \
                 << ": known_devices.cpp says so";                     \
  else                                                                 \
    GTEST_SKIP() << "the device lacks " << describe(what)
