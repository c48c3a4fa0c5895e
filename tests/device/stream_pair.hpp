#pragma once

// stream_pair: two ends of a stream in one process.

#include <future>
#include <utility>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

struct stream_pair {
  stream server;
  stream client;

  explicit stream_pair(const stream_options& options = {}) : stream_pair(options, options) {}
  stream_pair(const stream_options& asking, const stream_options& accepting)
      : stream_pair(asking, stream_listener::listen(own_address(), accepting).value()) {}

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
