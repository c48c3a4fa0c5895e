#include <cm/agent.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>

#include <base/log.hpp>
#include <base/random.hpp>
#include <cm/identifier.hpp>
#include <cm/sign_of_life.hpp>
#include <engine/fault_plan.hpp>
#include <engine/mailbox.hpp>
#include <engine/per_process.hpp>
#include <engine/station.hpp>
#include <pthread.h>
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

}  // namespace

agent& agent::of_process() {
  static engine::per_process<agent_of_process> all;
  auto& own = all.get();
  {
    const std::lock_guard lock(own.mutex);
    if (own.made != nullptr) return *own.made;
    own.made = new agent;
  }
  engine::add_time_source(*own.made);
  return *own.made;
}

agent::agent()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ < 0 || wake_fd_ < 0)
    throw std::system_error(errno, std::generic_category(), "no descriptor is left");
  ca_guid_ = random_number<std::uint64_t>();
  for (const int fd : {epoll_, wake_fd_}) engine::close_in_children(fd);
  watch(wake_fd_);
  sigset_t all{};
  sigset_t before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "softverbs-cm");
  engine::set_management_handler(
      [](const engine::management_datagram& datagram) { of_process().post(datagram); });
  engine::set_data_handler([](std::uint32_t qpn) { of_process().post_data(qpn); });
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
  constexpr unsigned all_numbers = 1U << 16U;
  auto drawn = random_number<std::uint16_t>();
  for (unsigned i = 0; i < all_numbers; ++i) {
    const auto number = std::uint32_t{port} << 16U | drawn++;
    // A late message to one that is gone is not for its successor.
    if (std::ranges::find(left_, number) != left_.end()) continue;
    if (by_number_.try_emplace(number, &who).second) return number;
  }
  return 0;
}

void agent::leave(std::uint32_t number) {
  if (by_number_.erase(number) > 0) left_[next_left_++ % left_.size()] = number;
}

void agent::listen(const port_reservation& port, identifier& who) {
  for (std::size_t i = 0; i < port.boxes().size(); ++i) {
    const int fd = port.boxes()[i]->fd();
    listeners_[fd] = {.port = &port, .box = i, .who = &who};
    watch(fd);
  }
}

void agent::stop_listening(const port_reservation& port) {
  for (const auto& box : port.boxes()) {
    if (listeners_.erase(box->fd()) == 0) continue;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, box->fd(), nullptr);
    empty(*box);  // whoever asked in the last moment gets an answer
  }
}

std::uint32_t agent::random_psn() { return random_number<std::uint32_t>() & wire::psn_mask; }

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
  const int keeper = testament_.add(number, will);
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

namespace {

/// Whether the other end is really closed: what epoll told may have been about a descriptor of the
/// same number that was closed since.
bool is_closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

void agent::neighbour_has_gone(int fd) {
  const auto found =
      std::ranges::find_if(neighbours_, [fd](const auto& each) { return each.second.fd == fd; });
  if (found == neighbours_.end() || !is_closed(fd)) return;
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
    const auto until = clock::wall_time(next);
    const bool for_ever = until == clock::wall::time_point::max();
    if (!for_ever) {
      const auto left = std::max(std::chrono::nanoseconds(0),
                                 std::chrono::nanoseconds(until - clock::wall::now()));
      timeout = {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    }
    const int count =
        ::epoll_pwait2(epoll_, ready.data(), ready.size(), for_ever ? nullptr : &timeout, nullptr);
    const std::lock_guard lock(mutex);
    try {
      for (int i = 0; i < count; ++i) handle_descriptor(ready[static_cast<std::size_t>(i)].data.fd);
      handle_inbox();
      // While the clock is stopped, whoever moves it runs the timers.
      next = clock::is_stopped() ? never : run_timers();
    } catch (const std::exception& problem) {
      // As a network does: what could not be handled is lost, and its sender repeats it.
      log(log_level::error, "a message of the connection manager is lost: {}", problem.what());
    }
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
    if (!is_closed(fd)) return;
    engine::forget_descriptor(fd);
    if (const int other = testament_.keeper_has_gone(); other >= 0) watch_new(other);
    return;
  }
  const auto found = listeners_.find(fd);
  if (found == listeners_.end()) {
    neighbour_has_gone(fd);
    return;
  }
  empty(*found->second.port->boxes()[found->second.box]);
}

void agent::empty(const engine::mailbox& box) {
  constexpr int letters_per_turn = 64;
  std::vector<std::byte> memory(engine::mailbox::letter_bytes);
  engine::mailbox::letter letter;
  for (int i = 0; i < letters_per_turn && box.take(memory, letter); ++i) receive_letter(letter);
}

void agent::receive_letter(const engine::mailbox::letter& letter) {
  const wire::flow flow{.source = letter.source,
                        .destination = letter.destination,
                        .source_port = letter.source_port,
                        .destination_port = wire::roce_udp_port};
  const auto packet = wire::intact_packet(flow, letter.packets);
  if (packet && packet->header.destination_qpn == wire::management_qpn)
    engine::receive_management(flow, *packet);
}

bool agent::handle_inbox() {
  std::vector<engine::management_datagram> datagrams;
  std::vector<std::uint32_t> queue_pairs;
  {
    const std::lock_guard lock(inbox_mutex_);
    datagrams.swap(inbox_);
    queue_pairs.swap(queue_pairs_with_data_);
  }
  for (const auto& each : datagrams) handle(each);
  for (const auto qpn : queue_pairs) data_came_to(qpn);
  return !datagrams.empty() || !queue_pairs.empty();
}

bool agent::is_cut_off(const engine::management_datagram& datagram) {
  const auto* const device = device_with(datagram.destination);
  return device != nullptr && (device->place->is_frozen() || device->place->port_is_down());
}

void agent::handle(const engine::management_datagram& datagram) {
  if (is_cut_off(datagram)) return;
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
  answer_for_nobody(datagram);
}

void agent::answer_for_nobody(const engine::management_datagram& datagram) {
  const auto answer = engine::answer_of_nobody(datagram.message);
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
  auto answer = engine::answer_of_nobody(datagram.message);
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
  const request_key key{
      .source = datagram.source, .ca_guid = message.ca_guid, .number = message.local_id};
  if (const auto found = requests_.find(key); found != requests_.end()) {
    found->second->on_repeated_request();
    return;
  }
  if (refuse_for_fault_plan(datagram)) return;
  const bool is_datagram = message.kind == wire::cm_kind::sidr_request;
  identifier* general = nullptr;
  for (const auto& [fd, each] : listeners_) {
    const auto& box = *each.port->boxes()[each.box];
    if (service_id(each.who->ps, each.port->port()) != message.service_id ||
        each.who->is_datagram() != is_datagram)
      continue;
    if (box.own_address() == datagram.destination) {
      each.who->on_request(datagram);
      return;
    }
    if (box.own_address() == net::address::any(datagram.destination.is_ipv4())) general = each.who;
  }
  if (general != nullptr) {
    general->on_request(datagram);
  } else {
    answer_for_nobody(datagram);
  }
}

bool agent::settle() {
  std::array<epoll_event, 16> ready{};
  const std::lock_guard lock(mutex);
  const int count = ::epoll_wait(epoll_, ready.data(), ready.size(), 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    any |= fd != wake_fd_;
    handle_descriptor(fd);
  }
  any |= handle_inbox();
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
