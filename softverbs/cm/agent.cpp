#include <cm/agent.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <random>

#include <cm/identifier.hpp>
#include <cm/sign_of_life.hpp>
#include <engine/station.hpp>
#include <engine/well_known_port.hpp>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

using engine::never;
using engine::time_point;

std::mutex agents_mutex;
agent* current = nullptr;
unsigned generation_of_current = 0;

}  // namespace

agent& agent::of_process() {
  const std::lock_guard lock(agents_mutex);
  if (current == nullptr || generation_of_current != engine::process_generation()) {
    current = new agent;  // threads may use it until the very end
    generation_of_current = engine::process_generation();
  }
  return *current;
}

agent::agent()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::random_device random;
  ca_guid_ = std::uint64_t{random()} << 32U | random();
  next_number_ = static_cast<std::uint16_t>(random());
  for (const int fd : {epoll_, wake_fd_}) engine::close_in_children(fd);
  watch(wake_fd_);
  engine::set_management_handler(
      [](const engine::management_datagram& datagram) { of_process().post(datagram); });
  engine::set_data_handler([](std::uint32_t qpn) { of_process().post_data(qpn); });
  sigset_t all{};
  sigset_t before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "softverbs-cm");
}

void agent::watch(int fd) const {
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest);
}

void agent::watch_new(int fd) const {
  engine::close_in_children(fd);
  watch(fd);
}

void agent::close_known(int fd) {
  engine::forget_descriptor(fd);
  ::close(fd);
}

void agent::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

void agent::post(const engine::management_datagram& datagram) {
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(datagram);
  }
  wake();
}

void agent::post_data(std::uint32_t qpn) {
  {
    const std::lock_guard lock(inbox_mutex_);
    queue_pairs_with_data_.push_back(qpn);
  }
  wake();
}

void agent::data_came_to(std::uint32_t qpn) {
  for (auto* each : all_) {
    if (each->qp != nullptr && each->qp->qp_num == qpn) static_cast<void>(each->data_has_come());
  }
}

// --- the directory ---------------------------------------------------------------------------

std::uint32_t agent::enter(identifier& who, std::uint16_t port) {
  for (;;) {
    const auto number = std::uint32_t{port} << 16U | ++next_number_;
    if (by_number_.try_emplace(number, &who).second) return number;
  }
}

void agent::leave(std::uint32_t number) { by_number_.erase(number); }

void agent::listen(const port_reservation& port, identifier& who) {
  for (std::size_t i = 0; i < port.boxes().size(); ++i) {
    const int fd = port.boxes()[i]->fd();
    listeners_[fd] = {.port = &port, .box = i, .who = &who};
    watch(fd);
  }
}

void agent::stop_listening(const port_reservation& port) {
  for (const auto& box : port.boxes()) {
    if (listeners_.erase(box->fd()) > 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, box->fd(), nullptr);
  }
}

std::uint32_t agent::random_psn() {
  static thread_local std::minstd_rand random(std::random_device{}());
  return static_cast<std::uint32_t>(random()) & wire::psn_mask;
}

void agent::set_timer(identifier& who, time_point when) {
  std::erase_if(timers_, [&](const auto& each) { return each.second == &who; });
  if (when == never) return;
  timers_.emplace(when, &who);
  wake();
}

void agent::forget(identifier& who) {
  set_timer(who, never);
  unwatch_neighbour(who);
}

// --- neighbours ------------------------------------------------------------------------------

void agent::show_life(const net::address& own, std::uint16_t port) {
  const place where(own, port);
  if (shown_.contains(where)) return;
  const int fd = listen_for_life(own, port);
  if (fd < 0) return;
  shown_[where] = fd;
  watch_new(fd);
}

void agent::greet_neighbour(int listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  kept_wills_.accept(fd);
  watch_new(fd);
}

void agent::bequeath(std::uint32_t number, const last_will& will) {
  const int keeper = testament_.add(number, will, static_cast<std::uint16_t>(number >> 16U));
  if (keeper >= 0) watch_new(keeper);
}

void agent::execute_wills_of(int fd) {
  for (const auto& will : kept_wills_.open(fd)) {
    auto* const device = device_with(will.own);
    const auto message = wire::decode_cm(will.message);
    // Only what a process may say of itself: its connection, from an address of this host.
    if (device == nullptr || !message || message->kind != wire::cm_kind::disconnect_request)
      continue;
    static_cast<void>(engine::send_management(*device->place, will.own, will.peer, *message));
  }
  close_known(fd);
}

void agent::watch_neighbour(identifier& who, const net::address& address, std::uint16_t port) {
  auto& line = neighbours_[{address, port}];
  if (line.fd < 0) {
    line.fd = connect_to_life(address, port);
    if (line.fd < 0) {
      neighbours_.erase({address, port});
      return;
    }
    watch_new(line.fd);
  }
  line.users.insert(&who);
}

void agent::unwatch_neighbour(identifier& who) {
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& line = each->second;
    line.users.erase(&who);
    if (line.users.empty()) {
      close_known(line.fd);
      each = neighbours_.erase(each);
    } else {
      ++each;
    }
  }
}

void agent::neighbour_has_gone(int fd) {
  const auto found =
      std::ranges::find_if(neighbours_, [fd](const auto& each) { return each.second.fd == fd; });
  if (found == neighbours_.end()) return;
  const auto users = std::move(found->second.users);
  close_known(fd);
  neighbours_.erase(found);
  for (auto* each : users) each->on_neighbour_gone();
}

// --- the thread ------------------------------------------------------------------------------

void agent::work() {
  time_point next = never;
  for (;;) {
    std::array<epoll_event, 16> ready{};
    timespec timeout{};
    if (next != never) {
      const auto left = std::max(std::chrono::nanoseconds(0),
                                 std::chrono::nanoseconds(next - engine::clock::now()));
      timeout = {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    }
    const int count = ::epoll_pwait2(epoll_, ready.data(), ready.size(),
                                     next == never ? nullptr : &timeout, nullptr);
    const std::lock_guard lock(mutex);
    for (int i = 0; i < count; ++i) handle_descriptor(ready[static_cast<std::size_t>(i)].data.fd);
    handle_inbox();
    next = run_timers();
  }
}

void agent::handle_descriptor(int fd) {
  if (fd == wake_fd_) {
    std::uint64_t calls = 0;
    [[maybe_unused]] const auto got = ::read(wake_fd_, &calls, sizeof calls);
    return;
  }
  if (std::ranges::any_of(shown_, [fd](const auto& each) { return each.second == fd; })) {
    greet_neighbour(fd);
    return;
  }
  if (kept_wills_.knows(fd)) {
    if (!kept_wills_.receive(fd)) execute_wills_of(fd);
    return;
  }
  if (testament_.is_kept_by(fd)) {
    engine::forget_descriptor(fd);
    if (const int other = testament_.keeper_has_gone(); other >= 0) watch_new(other);
    return;
  }
  const auto found = listeners_.find(fd);
  if (found == listeners_.end()) {
    neighbour_has_gone(fd);
    return;
  }
  const auto& box = *found->second.port->boxes()[found->second.box];
  std::vector<std::byte> memory(engine::mailbox::letter_bytes);
  engine::mailbox::letter letter;
  for (int i = 0; i < 64 && box.take(memory, letter); ++i) {
    if (letter.what != engine::mailbox::letter::kind::packets) continue;
    engine::well_known_port::deliver(letter.destination, letter.source, letter.source_port,
                                     letter.packets, letter.segment_bytes);
  }
}

void agent::handle_inbox() {
  std::vector<engine::management_datagram> datagrams;
  std::vector<std::uint32_t> queue_pairs;
  {
    const std::lock_guard lock(inbox_mutex_);
    datagrams.swap(inbox_);
    queue_pairs.swap(queue_pairs_with_data_);
  }
  for (const auto& each : datagrams) handle(each);
  for (const auto qpn : queue_pairs) data_came_to(qpn);
}

void agent::handle(const engine::management_datagram& datagram) {
  const auto& message = datagram.message;
  if (message.kind == wire::cm_kind::request || message.kind == wire::cm_kind::sidr_request) {
    handle_request(datagram);
    return;
  }
  // A request that is taken back, before its sender has learnt our number.
  if (message.kind == wire::cm_kind::rejection && message.remote_id == 0) {
    const auto found = requests_.find(
        {.source = datagram.source, .ca_guid = wire::guid_in(message), .number = message.local_id});
    if (found != requests_.end()) found->second->on_message(datagram);
    return;
  }
  const bool sidr = message.kind == wire::cm_kind::sidr_reply;
  if (const auto found = by_number_.find(sidr ? message.local_id : message.remote_id);
      found != by_number_.end()) {
    found->second->on_message(datagram);
    return;
  }
  // 12.9.8.3: whoever asks to disconnect from nobody is disconnected already.
  if (message.kind != wire::cm_kind::disconnect_request) return;
  if (auto* const device = device_with(datagram.destination)) {
    static_cast<void>(engine::send_management(*device->place, datagram.destination, datagram.source,
                                              {.kind = wire::cm_kind::disconnect_reply,
                                               .transaction = message.transaction,
                                               .local_id = message.remote_id,
                                               .remote_id = message.local_id}));
  }
}

void agent::handle_request(const engine::management_datagram& datagram) {
  const auto& message = datagram.message;
  const request_key key{
      .source = datagram.source, .ca_guid = message.ca_guid, .number = message.local_id};
  if (const auto found = requests_.find(key); found != requests_.end()) {
    found->second->on_repeated_request();
    return;
  }
  identifier* general = nullptr;
  for (const auto& [fd, each] : listeners_) {
    const auto& box = *each.port->boxes()[each.box];
    if (service_id(each.who->ps, each.port->port()) != message.service_id) continue;
    if (box.own_address() == datagram.destination) {
      each.who->on_request(datagram);
      return;
    }
    if (box.own_address() == net::address::any(datagram.destination.is_ipv4())) general = each.who;
  }
  if (general != nullptr) general->on_request(datagram);
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
