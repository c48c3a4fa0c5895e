#pragma once

// reception: the peers of a listener on their way from a request to a stream_connection.
//
// A request is answered as soon as it is seen, and then waits here, half open, until the peer is
// up, has failed, or its time is over. There is room for a few; when it is full, requests are left
// where they are. One descriptor is readable whenever there is something to do: a request and room
// for it, news of a peer, or the end of a peer's time.
//
// Threads: any.

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/listener.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/stream_options.hpp>

#include "core/joint_descriptor.hpp"
#include "stream/stream_connection.hpp"

namespace RDMAXX_NAMESPACE::detail {

class reception {
 public:
  using time_point = library_clock::time_point;

  [[nodiscard]] static result<std::unique_ptr<reception>> create(cm::listener waiting,
                                                                 const stream_options& options,
                                                                 std::size_t most_half_open);
  reception(const reception&) = delete;
  reception& operator=(const reception&) = delete;
  ~reception();

  /// Whoever is up, or null; the error is that of one peer, unless its category says otherwise.
  [[nodiscard]] result<std::shared_ptr<stream_connection>> try_next();
  /// Until try_next() may have something to do, or the time is over.
  [[nodiscard]] result<void> wait(time_point deadline);

  [[nodiscard]] int fd() const noexcept { return descriptor_->fd(); }
  [[nodiscard]] socket_address local_address() const noexcept { return waiting_.local_address(); }

 private:
  struct half_open {
    cm_id id;
    stream_resources resources;
    stream_protocol::agreement terms;
    time_point deadline;
  };

  reception(cm::listener waiting, const stream_options& options, std::size_t most_half_open);

  /// Answers it.
  [[nodiscard]] result<half_open> received(cm::connection_request request) const;
  /// The event that says that the peer is up; nothing if it may still come.
  [[nodiscard]] static result<std::optional<cm_event>> news_of(const half_open& peer);
  /// Takes a peer out of the list.
  [[nodiscard]] half_open taken(std::vector<half_open>::iterator peer);
  [[nodiscard]] time_point earliest_deadline() const;
  void watch();

  cm::listener waiting_;
  const stream_options options_;
  const std::size_t most_half_open_;

  std::mutex mutex_;
  std::unique_ptr<joint_descriptor> descriptor_;
  int timer_ = -1;
  std::vector<half_open> peers_;
  bool requests_are_watched_ = true;
};

}  // namespace RDMAXX_NAMESPACE::detail
