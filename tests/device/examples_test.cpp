// The examples do what their first lines promise.

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "child_process.hpp"
#include "cm_conversation.hpp"
#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

class examples : public ::testing::Test {
 protected:
  /// Examples are built beside the tests.
  static std::string program(const std::string& name) {
    const auto self = std::filesystem::read_symlink("/proc/self/exe");
    const auto path = self.parent_path().parent_path() / "examples" / name;
    if (!exists(path)) throw std::runtime_error(path.string() + " is not built");
    return path.string();
  }

  const std::string device_ = device_under_test::get().name();
};

TEST_F(examples, devices_lists_the_device) {
  child_process child({program("01_devices")});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 0) << output;
  EXPECT_NE(output.find(device_), std::string::npos) << output;
  EXPECT_NE(output.find("gid 0"), std::string::npos) << output;
}

TEST_F(examples, rc_ping_exchanges_messages_between_two_processes) {
  RDMAXX_NEEDS(capability::manual_connection);
  const std::string announcement = "listening on ";
  child_process server({program("02_rc_ping"), device_, "0"});
  const auto first = server.line();
  ASSERT_TRUE(first.starts_with(announcement)) << first;

  child_process client(
      {program("02_rc_ping"), device_, first.substr(announcement.size()), "127.0.0.1"});
  const auto at_client = client.output();
  const auto at_server = server.output();

  EXPECT_EQ(client.wait(), 0) << at_client;
  EXPECT_EQ(server.wait(), 0) << at_server;
  EXPECT_NE(at_client.find("pong 5"), std::string::npos) << at_client;
  EXPECT_NE(at_server.find("ping 5"), std::string::npos) << at_server;
  EXPECT_NE(at_client.find("read: a note from the server"), std::string::npos) << at_client;
  EXPECT_NE(at_server.find("read: a note from the client"), std::string::npos) << at_server;
}

TEST_F(examples, cm_ping_exchanges_messages_between_two_processes) {
  const std::string announcement = "listening on ";
  child_process server({program("03_cm_ping"), describe(own_address())});
  const auto first = server.line();
  ASSERT_TRUE(first.starts_with(announcement)) << first;

  child_process client({program("03_cm_ping"), first.substr(announcement.size()), "Alice"});
  const auto at_client = client.output();
  const auto at_server = server.output();

  EXPECT_EQ(client.wait(), 0) << at_client;
  EXPECT_EQ(server.wait(), 0) << at_server;
  EXPECT_NE(at_client.find("welcome, Alice"), std::string::npos) << at_client;
  EXPECT_NE(at_client.find("pong 5"), std::string::npos) << at_client;
  EXPECT_NE(at_server.find("ping 5"), std::string::npos) << at_server;
}

TEST_F(examples, cm_ping_explains_an_address_without_a_listener) {
  const auto port = cm::listen(own_address()).value().local_address().port();
  child_process child({program("03_cm_ping"), describe(own_address(port)), "Alice"});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 1);
  EXPECT_NE(output.find("nothing listens"), std::string::npos) << output;
}

TEST_F(examples, rc_ping_explains_a_device_that_is_not_there) {
  child_process child({program("02_rc_ping"), "nosuch0", "0"});
  const auto output = child.output();

  EXPECT_NE(child.wait(), 0);
  EXPECT_NE(output.find(device_), std::string::npos) << output;
}

TEST_F(examples, rc_ping_without_arguments_tells_its_usage) {
  child_process child({program("02_rc_ping")});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 2);
  EXPECT_NE(output.find("usage"), std::string::npos) << output;
}

TEST_F(examples, echo_returns_what_it_was_sent) {
  child_process server({program("04_echo_server"), describe(own_address())});
  const auto address = server.line().substr(std::string("listening on ").size());
  for (int round = 0; round < 2; ++round) {
    child_process client({program("05_echo_client"), address, "some", "words"});
    const auto output = client.output();
    EXPECT_EQ(client.wait(), 0) << output;
    EXPECT_EQ(output, "some words\n");
  }
}

TEST_F(examples, line_server_stores_what_clients_set) {
  child_process server({program("06_line_server"), describe(own_address())});
  const auto address = server.line().substr(std::string("listening on ").size());
  child_process first({program("06_line_server"), address, "set colour blue", "get size"});
  EXPECT_EQ(first.output(), "ok\nnothing\n");
  EXPECT_EQ(first.wait(), 0);
  child_process second({program("06_line_server"), address, "get colour", "sing"});
  EXPECT_EQ(second.output(), "blue\nwhat?\n");
  EXPECT_EQ(second.wait(), 0);
}

TEST_F(examples, testing_recovery_passes_its_own_tests) {
  RDMAXX_NEEDS(capability::faults);
  child_process child({program("10_testing_recovery")});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 0) << output;
  EXPECT_NE(output.find("ok: the writer gives up on a silent replica"), std::string::npos)
      << output;
}

TEST_F(examples, testing_a_program_finds_what_it_expects) {
  RDMAXX_NEEDS(capability::faults);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a program without a sanitizer cannot load a library with one";
#else
  const auto library = std::filesystem::path(program("01_devices")).parent_path().parent_path() /
                       "lib" / "libsoftverbs.so";
  child_process child({RDMAXX_EXAMPLES "/11_testing_a_program.sh", library.string()});
  const auto output = child.output();

  EXPECT_EQ(child.wait(), 0) << output;
  EXPECT_NE(output.find("ok: the server rejects: the client fails"), std::string::npos) << output;
#endif
}

}  // namespace
}  // namespace rdmaxx::device_tests
