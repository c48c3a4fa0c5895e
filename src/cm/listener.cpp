#include <rdmaxx/cm/listener.hpp>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/connection_attempt.hpp"
#include "cm/half_open_peers.hpp"
#include "cm/retry_while_busy.hpp"

namespace RDMAXX_NAMESPACE::cm {

namespace {

result<connection_request> separated(cm_event& event) {
  RDMAXX_TRY(auto id, event.take_id());
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(detail::retry_while_busy([&] { return id.migrate(channel); }));
  return connection_request(std::move(id), event);
}

detail::connection_attempt::inputs inputs_of(const accept_options& options) {
  return {.qp = &options.qp, .parameters = &options.parameters};
}

detail::connection_attempt attempt_of(cm_id id, const accept_options& options) {
  return {std::move(id), connection_steps::to_accept(), options.timeout};
}

result<listener> listen_steps(const socket_address& local, const listen_options& options) {
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(auto id, channel.create_id(port_space::tcp));
  RDMAXX_TRY(id.set(options.id));
  RDMAXX_TRY(id.bind(local));
  RDMAXX_TRY(id.listen(options.backlog));
  return listener::from(std::move(id));
}

}  // namespace

class listener::acceptance {
 public:
  struct nothing {};
  using peers = detail::half_open_peers<nothing>;

  explicit acceptance(std::unique_ptr<peers> half_open) noexcept
      : half_open_(std::move(half_open)) {}

  [[nodiscard]] peers& half_open() const noexcept { return *half_open_; }

  /// Answers the next pending request.
  [[nodiscard]] result<std::optional<peers::peer>> answered(const listener& waiting,
                                                            const accept_options& options) const {
    RDMAXX_TRY(auto request, waiting.try_get_request());
    if (!request) return std::nullopt;
    const auto address = request->peer_address();
    auto attempt = attempt_of(std::move(*request).release(), options);
    if (const auto begun = attempt.start(inputs_of(options)); !begun)
      return half_open_->told_of(begun.error(), address);
    return std::optional(peers::peer{.extra = {}, .attempt = std::move(attempt)});
  }

 private:
  std::unique_ptr<peers> half_open_;
};

listener::listener() noexcept = default;
listener::listener(cm_id listening, std::unique_ptr<acceptance> peers) noexcept
    : id_(std::move(listening)), peers_(std::move(peers)) {}
listener::listener(listener&&) noexcept = default;
listener& listener::operator=(listener&& other) noexcept {
  peers_ = std::move(other.peers_);  // first: it watches the identifier's channel
  id_ = std::move(other.id_);
  return *this;
}
listener::~listener() = default;

result<listener> listener::from(cm_id listening) {
  if (!listening) return misuse_error("listener::from", "the identifier is empty");
  RDMAXX_TRY(auto peers,
             acceptance::peers::create(listening.channel().fd(), max_half_open, "accepting"));
  return listener(std::move(listening), std::make_unique<acceptance>(std::move(peers)));
}

int listener::fd() const noexcept {
  detail::expect(peers_ != nullptr, detail::empty_handle, detail::use_the_other);
  return peers_->half_open().fd();
}

connection_request::connection_request(cm_id id, const cm_event& request)
    : id_(std::move(id)),
      peer_data_(request.private_data().begin(), request.private_data().end()),
      parameters_(request.parameters()) {
  parameters_.private_data = {};
}

connection_parameters connection_request::parameters() const noexcept {
  auto offered = parameters_;
  offered.private_data = peer_data_;
  return offered;
}

result<connection> connection_request::accept(const accept_options& options) && {
  const auto peer = peer_address();
  auto attempt = attempt_of(std::move(id_), options);
  if (const auto finished = attempt.finish(inputs_of(options)); !finished)
    return finished.error().within(fmt::format("accepting {}", describe(peer)));
  return std::move(attempt).connected();
}

result<void> connection_request::reject(std::span<const std::byte> private_data) && {
  const auto id = std::move(id_);
  return id.reject(private_data);
}

result<std::optional<connection_request>> listener::try_get_request() const {
  for (;;) {
    RDMAXX_TRY(auto event, id_.channel().try_get_event());
    if (!event) return std::nullopt;
    if (event->type() == cm_event_type::connect_request) {
      RDMAXX_TRY(auto request, separated(*event));
      return std::optional(std::move(request));
    }
    if (event->type() == cm_event_type::device_removal)
      return errno_error("listening", ENODEV, describe(local_address()));
  }
}

result<connection_request> listener::get_request(
    std::optional<std::chrono::milliseconds> timeout) const {
  return wait_for_event(
      id_.channel().fd(), timeout, [this] { return try_get_request(); },
      [this](std::chrono::milliseconds waited) {
        return timed_out_error(
            "cm::listener::get_request", waited,
            fmt::format("a connection request on {}", describe(local_address())));
      });
}

result<connection> listener::accept(const accept_options& options) const {
  const auto end = deadline_after(options.timeout);
  for (;;) {
    RDMAXX_TRY(auto next, try_accept(options));
    if (next) return *std::move(next);
    if (library_clock::now() >= end) {
      return timed_out_error("cm::listener::accept", options.timeout,
                             fmt::format("a connection on {}", describe(local_address())));
    }
    RDMAXX_TRY(peers_->half_open().wait(end));
  }
}

result<std::optional<connection>> listener::try_accept(const accept_options& options) const {
  detail::expect(peers_ != nullptr, detail::empty_handle, detail::use_the_other);
  RDMAXX_TRY(auto next,
             peers_->half_open().try_next([&] { return peers_->answered(*this, options); }));
  if (!next) return std::nullopt;
  return std::optional(std::move(next->connection));
}

result<listener> listen(const socket_address& local, const listen_options& options) {
  auto made = listen_steps(local, options);
  if (made) return made;
  return made.error().within(fmt::format("listening on {}", describe(local)));
}

result<listener> listen(std::string_view local, const listen_options& options) {
  RDMAXX_TRY(const auto addresses, socket_address::lookup(local));
  return listen(addresses.front(), options);
}

std::string describe(const accept_options& options) {
  return fmt::format("timeout {} ms, {}, {}", options.timeout.count(), describe(options.qp),
                     describe(options.parameters));
}

std::string describe(const connection_request& request) {
  return fmt::format("request of {}", describe(request.peer_address()));
}

std::string describe(const listen_options& options) {
  return fmt::format("backlog {}, {}", options.backlog, describe(options.id));
}

std::string describe(const listener& waiting) {
  if (!waiting) return "listener (empty)";
  return fmt::format("listener on {}", describe(waiting.local_address()));
}

}  // namespace RDMAXX_NAMESPACE::cm
