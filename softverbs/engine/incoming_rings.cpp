#include <engine/incoming_rings.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <engine/host_protocol.hpp>
#include <engine/passed_descriptors.hpp>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

// Accepted at once, before others get their turn.
constexpr int connections_per_turn = 16;

}  // namespace

class incoming_rings::watched_connection final : public packet_source {
 public:
  explicit watched_connection(incoming_rings& owner) : owner_(owner) {}
  bool receive(receive_state& state, std::uint32_t events) override {
    // Doorbells are for the progress thread: a user who answered one would leave it asleep with its
    // neighbours believing that it is awake.
    owner_.on_event(*this, (events & (EPOLLHUP | EPOLLERR)) != 0, !state.called_by_user);
    return false;  // packets are in the rings, not here
  }

 private:
  incoming_rings& owner_;
};

std::unique_ptr<packet_source> incoming_rings::make_source() {
  return std::make_unique<watched_connection>(*this);
}

incoming_rings::limits incoming_rings::limits_of_process() {
  limits bounds;
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    bounds.in_all = std::min<std::size_t>(bounds.in_all, descriptors.rlim_cur / 4);
  return bounds;
}

incoming_rings::incoming_rings(const limits& bounds, source_watcher& watcher)
    : limits_(bounds), watcher_(watcher) {}

bool incoming_rings::accept_from(const ring_listener& listener) {
  reserve_.provide();
  for (int i = 0; i < connections_per_turn; ++i) {
    const int fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EAGAIN) return true;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (!reserve_.refuse_one(listener.fd())) return false;
      continue;
    }
    private_descriptor connection(fd);
    const auto writer = net::credentials_of_peer(fd);
    if (!writer || !net::are_trusted(*writer)) continue;  // which closes it
    auto made = std::make_unique<newcomer>(newcomer{.watched = {},
                                                    .connection = std::move(connection),
                                                    .writer = *writer,
                                                    .destination = listener.own_address(),
                                                    .destination_port = listener.port()});
    // Nearly always the offer is there already.
    if (take_offer(*made) != outcome::pending) continue;
    if (newcomers_.size() >= limits_.without_offer) {
      end(*newcomers_.front());
      newcomers_.erase(newcomers_.begin());
    }
    made->watched = make_source();
    watcher_.add(fd, *made->watched, EPOLLIN);
    newcomers_.push_back(std::move(made));
  }
  return true;
}

bool incoming_rings::has_place_for(const net::credentials& writer) const {
  if (rings_.size() >= limits_.in_all) return false;
  // All processes that this one cannot see (their number is 0) count as one.
  const auto its = std::ranges::count_if(rings_, [&](const std::unique_ptr<ring>& each) {
    return each->writer.process == writer.process;
  });
  return static_cast<std::size_t>(its) < limits_.from_one_process;
}

incoming_rings::outcome incoming_rings::take_offer(newcomer& from) {
  host_protocol::ring_offer offer;
  std::array<std::byte, sizeof offer> bytes{};
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const received_descriptors<> descriptors(message);
  const int fd = from.connection.get();
  const auto got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return outcome::pending;
  if (got < 0) return outcome::refused;
  const auto [memfd, none, neither] = descriptors.take(message, 1);
  if (!memfd) return outcome::refused;
  std::memcpy(&offer, bytes.data(), sizeof offer);
  const bool is_sound = got == sizeof offer && (message.msg_flags & MSG_TRUNC) == 0 &&
                        offer.version == host_protocol::ring_offer::current_version;
  const bool has_place = has_place_for(from.writer);
  auto memory = is_sound && has_place ? engine::ring::mapping::of_foreign(memfd.get())
                                      : engine::ring::mapping();
  if (!memory.is_good()) {
    log(log_level::debug, "a ring of process {} is refused: {}", from.writer.process,
        has_place ? "it is not what it should be" : "there are too many");
    return outcome::refused;
  }
  std::unique_ptr<ring> made(
      new ring{.connection = make_source(),
               .reader = ring_reader(std::move(from.connection), std::move(memory)),
               .source = offer.source,
               .destination = from.destination,
               .source_port = offer.source_port,
               .destination_port = from.destination_port,
               .writer = from.writer});
  watcher_.add(fd, *made->connection, EPOLLIN);
  rings_.push_back(std::move(made));
  return outcome::taken;
}

void incoming_rings::on_event(const packet_source& connection, bool has_ended,
                              bool answer_doorbells) {
  const auto known = std::ranges::find_if(
      rings_, [&](const auto& each) { return each->connection.get() == &connection; });
  if (known != rings_.end()) {
    auto& reader = (*known)->reader;
    if (has_ended) reader.writer_has_gone();
    if (answer_doorbells) reader.awake();
    if (reader.is_finished()) forget(static_cast<std::size_t>(known - rings_.begin()));
    return;
  }
  const auto waiting = std::ranges::find_if(
      newcomers_, [&](const auto& each) { return each->watched.get() == &connection; });
  if (waiting == newcomers_.end()) return;
  auto who = std::move(*waiting);
  newcomers_.erase(waiting);
  if (take_offer(*who) == outcome::pending) {
    newcomers_.push_back(std::move(who));
  } else {
    end(*who);
  }
}

void incoming_rings::end(newcomer& who) {
  // It has no connection any more if that is a ring's now.
  if (who.connection) watcher_.remove(who.connection.get());
  ended_.push_back(std::move(who.watched));
}

void incoming_rings::forget(std::size_t index) {
  watcher_.remove(rings_[index]->reader.connection());
  ended_.push_back(std::move(rings_[index]->connection));
  rings_.erase(rings_.begin() + static_cast<std::ptrdiff_t>(index));
}

bool incoming_rings::prepare_for_sleep() {
  return std::ranges::all_of(
      rings_, [](const std::unique_ptr<ring>& each) { return each->reader.prepare_to_sleep(); });
}

}  // namespace softverbs::engine
