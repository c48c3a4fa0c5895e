#include <cm/agent.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <set>
#include <system_error>

#include <base/log.hpp>
#include <base/random.hpp>
#include <base/start_thread.hpp>
#include <cm/cm_id.hpp>
#include <cm/message_source.hpp>
#include <engine/epoll_until.hpp>
#include <engine/fault_plan.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/netdev_port.hpp>
#include <engine/per_process.hpp>
#include <net/credentials.hpp>
#include <net/netdev.hpp>
#include <net/socket_owner.hpp>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

using engine::clock;
using engine::never;
using engine::time_point;

struct agent_of_process {
  std::mutex mutex;
  agent* made = nullptr;
};

agent_of_process& own_of_process() {
  static engine::per_process<agent_of_process> all;
  return all.get();
}

}  // namespace

agent* agent::of_process_if_made() {
  auto& own = own_of_process();
  const std::lock_guard lock(own.mutex);
  return own.made;
}

agent& agent::of_process() {
  auto& own = own_of_process();
  {
    const std::lock_guard lock(own.mutex);
    if (own.made != nullptr) return *own.made;
    own.made = new agent;
  }
  engine::add_time_source(*own.made);
  return *own.made;
}

agent::agent()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      liveness(epoll_.get()) {
  if (!epoll_ || !wake_fd_)
    throw std::system_error(errno, std::generic_category(), "no descriptor is left");
  ca_guid_ = random_number<std::uint64_t>();
  watch(wake_fd_.get());
  thread_ = start_thread("softverbs-cm", [this] { work(); });
  engine::set_management_handler(
      [](const engine::management_datagram& datagram) { of_process().post(datagram); });
  engine::set_data_handler([](std::uint32_t qpn) { of_process().post_data(qpn); });
}

void agent::watch(int fd) const {
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
}

void agent::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof one);
}

void agent::post(const engine::management_datagram& datagram) {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (inbox_.size() >= most_in_inbox) {
      if (lost_++ == 0)
        log(log_level::warning,
            "more than {} messages of the connection manager wait: further ones are lost, and "
            "their senders repeat them",
            most_in_inbox);
      return;
    }
    inbox_.push_back(datagram);
  }
  wake();
}

void agent::post_data(std::uint32_t qpn) {
  {
    const std::lock_guard lock(inbox_mutex_);
    // The peer's RTU says the same.
    if (queue_pairs_with_data_.size() >= most_in_inbox) return;
    queue_pairs_with_data_.push_back(qpn);
  }
  wake();
}

void agent::handle_first_data(std::uint32_t qpn) const {
  for (auto* each : ids.all()) {
    if (each->qp != nullptr && each->qp->qp_num == qpn) static_cast<void>(each->data_arrived());
  }
}

// --- listeners -------------------------------------------------------------------------------

void agent::listen(const port_reservation& port, cm_id& who) {
  for (std::size_t i = 0; i < port.sockets().size(); ++i) {
    const int fd = port.sockets()[i]->fd();
    listeners_[fd] = {.port = &port, .socket = i, .who = &who};
    watch(fd);
  }
}

void agent::stop_listening(const port_reservation& port) {
  for (const auto& socket : port.sockets()) {
    if (listeners_.erase(socket->fd()) == 0) continue;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket->fd(), nullptr);
    try {
      empty(*socket);  // a request that came at the last moment is answered
    } catch (...) {    // NOLINT(bugprone-empty-catch): or it is repeated
    }
  }
}

void agent::set_timer(cm_id& who, time_point when) {
  std::erase_if(timers_, [&](const auto& each) { return each.second == &who; });
  if (when == never) return;
  timers_.emplace(when, &who);
  wake();
}

// --- processes that end ----------------------------------------------------------------------

void agent::watch_peer(cm_id& who, const net::address& address, std::uint16_t port) {
  if (liveness.watch(who, address, port)) return;
  peers_gone_.insert(&who);
  wake();
}

void agent::unwatch_peer(cm_id& who) {
  liveness.unwatch(who);
  peers_gone_.erase(&who);
}

void agent::receive_from_gone_peers() {
  if (peers_gone_.empty()) return;
  std::set<engine::netdev_port*> places;
  for (const auto* const each : peers_gone_) {
    if (each->address.device() != nullptr) places.insert(each->address.device()->place);
  }
  for (auto* const each : places) each->receive_pending();
  handle_inbox();
}

bool agent::report_gone_peers() {
  const bool any = !peers_gone_.empty();
  while (!peers_gone_.empty()) {
    auto* const who = *peers_gone_.begin();
    peers_gone_.erase(peers_gone_.begin());
    who->on_peer_gone();
  }
  return any;
}

void agent::send_orphan_disconnects(const std::vector<orphan_disconnect>& disconnects) {
  for (const auto& [own, peer, dreq] : disconnects) {
    auto* const device = device_with(own);
    const auto message = wire::decode_cm(dreq);
    if (device == nullptr || !message) continue;
    static_cast<void>(engine::send_management(*device->place, own, peer, *message));
  }
}

// --- the thread ------------------------------------------------------------------------------

void agent::work() {
  time_point next = never;
  auto next_probe = clock::wall::time_point::max();
  for (;;) {
    std::array<epoll_event, 16> ready{};
    const int count =
        engine::epoll_until(epoll_.get(), ready, std::min(clock::wall_time(next), next_probe));
    const std::lock_guard lock(mutex);
    try {
      for (int i = 0; i < count; ++i) handle_descriptor(ready[static_cast<std::size_t>(i)].data.fd);
      handle_inbox();
      peers_gone_.merge(liveness.probe());
      receive_from_gone_peers();
      report_gone_peers();
      // While the clock is stopped, whoever moves it runs the timers.
      next = clock::is_stopped() ? never : run_timers();
    } catch (const std::exception& problem) {
      // Like a message that a network loses: its sender repeats it.
      log(log_level::error, "a message of the connection manager is lost: {}", problem.what());
    }
    next_probe = liveness.next_probe();
  }
}

void agent::handle_descriptor(int fd) {
  if (fd == wake_fd_.get()) {
    std::uint64_t calls = 0;
    [[maybe_unused]] const auto got = ::read(wake_fd_.get(), &calls, sizeof calls);
    return;
  }
  if (const auto found = listeners_.find(fd); found != listeners_.end()) {
    empty(*found->second.port->sockets()[found->second.socket]);
    return;
  }
  auto report = liveness.handle(fd);
  peers_gone_.merge(report.peers_gone);
  send_orphan_disconnects(report.orphan_disconnects);
}

void agent::empty(const engine::handoff_socket& socket) {
  constexpr int bursts_per_turn = 64;
  std::vector<std::byte> memory(engine::handoff_socket::burst_bytes);
  engine::handoff_socket::burst burst;
  for (int i = 0;
       i < bursts_per_turn && socket.take(memory, burst, engine::handoff_socket::from::everybody);
       ++i)
    receive_burst(burst);
}

void agent::receive_burst(const engine::handoff_socket::burst& burst) {
  const wire::flow flow{.source = burst.source,
                        .destination = burst.destination,
                        .source_port = burst.source_port,
                        .destination_port = wire::roce_udp_port};
  const auto packet = wire::intact_packet(flow, burst.packets);
  if (!packet || packet->header.destination_qpn != wire::management_qpn) return;
  // A user who is not trusted may only send from a port of its own, on this host.
  if (!net::are_trusted(burst.sender) &&
      !(net::is_local(flow.source) &&
        net::owns_udp_socket(burst.sender.user, flow.source, flow.source_port)))
    return;
  engine::receive_management(flow, *packet, engine::management_datagram::arrival::service);
}

bool agent::handle_inbox() {
  std::vector<engine::management_datagram> datagrams;
  std::vector<std::uint32_t> queue_pairs;
  std::size_t lost = 0;
  {
    const std::lock_guard lock(inbox_mutex_);
    datagrams.swap(inbox_);
    lost = std::exchange(lost_, 0);
    queue_pairs.swap(queue_pairs_with_data_);
  }
  if (lost > 0) log(log_level::info, "{} messages of the connection manager were lost", lost);
  for (const auto& each : datagrams) handle(each);
  for (const auto qpn : queue_pairs) handle_first_data(qpn);
  return !datagrams.empty() || !queue_pairs.empty();
}

bool agent::is_cut_off(const engine::management_datagram& datagram) {
  const auto* const device = device_with(datagram.destination);
  return device != nullptr &&
         (device->place->outages().is_frozen() || device->place->outages().port_is_down());
}

void agent::handle(const engine::management_datagram& datagram) {
  if (!is_believable(datagram, net::is_local(datagram.source)) || is_cut_off(datagram)) return;
  const auto& message = datagram.message;
  if (message.kind == wire::cm_kind::req || message.kind == wire::cm_kind::sidr_req) {
    handle_request(datagram);
    return;
  }
  if (wire::withdraws_request(message)) {
    if (auto* const found = ids.with_request({.source = datagram.source,
                                              .ca_guid = wire::guid_in(message),
                                              .comm_id = message.local_id}))
      found->on_message(datagram);
    return;
  }
  const bool is_sidr = message.kind == wire::cm_kind::sidr_rep;
  if (auto* const found = ids.with_comm_id(is_sidr ? message.local_id : message.remote_id)) {
    found->on_message(datagram);
  } else {
    answer_without_receiver(datagram);
  }
}

void agent::answer_without_receiver(const engine::management_datagram& datagram) {
  const auto answer = wire::answer_without_receiver(datagram.message);
  if (!answer) return;
  auto* const device = device_with(datagram.destination);
  if (device == nullptr) return;
  static_cast<void>(
      engine::send_management(*device->place, datagram.destination, datagram.source, *answer));
}

bool agent::refuse_for_fault_plan(const engine::management_datagram& datagram) {
  auto& plan = engine::fault_plan::of_process();
  if (!plan.is_active(engine::fault_site::request)) return false;
  const auto reason = plan.on_request();
  auto answer = wire::answer_without_receiver(datagram.message);
  auto* const device = device_with(datagram.destination);
  if (!reason || !answer || device == nullptr) return false;
  answer->reason = *reason;
  answer->status = wire::sidr_status::rejected;
  static_cast<void>(
      engine::send_management(*device->place, datagram.destination, datagram.source, *answer));
  return true;
}

void agent::handle_request(const engine::management_datagram& datagram) {
  const auto& message = datagram.message;
  if (auto* const known = ids.with_request(
          {.source = datagram.source, .ca_guid = message.ca_guid, .comm_id = message.local_id})) {
    known->on_message(datagram);
    return;
  }
  if (refuse_for_fault_plan(datagram)) return;
  if (auto* const listener = listener_for(datagram)) {
    listener->requests.on_request(datagram);
  } else {
    answer_without_receiver(datagram);
  }
}

cm_id* agent::listener_for(const engine::management_datagram& request) const {
  const auto& message = request.message;
  const bool is_datagram = message.kind == wire::cm_kind::sidr_req;
  cm_id* for_every_address = nullptr;
  for (const auto& [fd, each] : listeners_) {
    if (service_id(each.who->ps, each.port->port()) != message.service_id ||
        each.who->is_datagram() != is_datagram)
      continue;
    const auto& own = each.port->sockets()[each.socket]->own_address();
    if (own == request.destination) return each.who;
    if (own == net::address::any(request.destination.is_ipv4())) for_every_address = each.who;
  }
  return for_every_address;
}

bool agent::settle() {
  std::array<epoll_event, 16> ready{};
  const std::lock_guard lock(mutex);
  const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    any |= fd != wake_fd_.get();
    handle_descriptor(fd);
  }
  any |= handle_inbox();
  any |= report_gone_peers();
  return any;
}

time_point agent::next_due() {
  const std::lock_guard lock(mutex);
  return timers_.empty() ? never : timers_.begin()->first;
}

void agent::run_due() {
  const std::lock_guard lock(mutex);
  static_cast<void>(run_timers());
}

time_point agent::run_timers() {
  while (!timers_.empty()) {
    const auto [when, who] = *timers_.begin();
    const auto now = engine::clock::now();
    if (when > now) return when;
    timers_.erase(timers_.begin());
    who->on_timer(now);
  }
  return never;
}

}  // namespace softverbs::cm
