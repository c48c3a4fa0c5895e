#pragma once

// stream_pair: two ends of a stream in one process. With RDMAXX_TEST_STREAM_GROUP in the
// environment, streams that have resources of their own otherwise are of a group.

#include <cstdlib>
#include <future>
#include <utility>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

/// What a test asks for, of a group if the environment says so.
[[nodiscard]] inline stream_options as_run(stream_options options) {
  if (options.group || std::getenv("RDMAXX_TEST_STREAM_GROUP") == nullptr) return options;
  // As much as a stream alone has: tests write it without a reader.
  static const auto group =
      stream_group::create({.streams = 16, .buffer_bytes = 65552, .idle_credits = 14}).value();
  options.group = group;
  return options;
}

struct stream_pair {
  stream server;
  stream client;

  explicit stream_pair(const stream_options& options = {}) : stream_pair(options, options) {}
  stream_pair(const stream_options& asking, const stream_options& accepting)
      : stream_pair(as_run(asking),
                    stream_listener::listen(own_address(), as_run(accepting)).value()) {}

 private:
  stream_pair(const stream_options& asking, const stream_listener& waiting)
      : stream_pair(std::async(std::launch::async,
                               [&] { return stream::connect(waiting.local_address(), asking); }),
                    waiting) {}
  /// Members are initialised in their order: what is accepted first has been asked for before.
  stream_pair(std::future<result<stream>> connecting, const stream_listener& waiting)
      : server(waiting.accept(patience).value()), client(connecting.get().value()) {}
};

}  // namespace rdmaxx::device_tests
