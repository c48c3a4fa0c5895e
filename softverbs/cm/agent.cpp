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
#include <cm/identifier.hpp>
#include <cm/message_source.hpp>
#include <engine/epoll_until.hpp>
#include <engine/fault_plan.hpp>
#include <engine/mailbox.hpp>
#include <engine/per_process.hpp>
#include <engine/station.hpp>
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
      neighbours_(epoll_.get()) {
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
    // As a network does. What this process says to itself is as much as it has identifiers.
    if (inbox_.size() >= most_in_inbox &&
        datagram.came != engine::management_datagram::way::this_process) {
      if (lost_++ == 0)
        log(log_level::warning,
            "more than {} messages of the connection manager wait: further ones are lost, and "
            "their "
            "senders repeat them",
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
    // Whoever waits for it hears from its peer, too.
    if (queue_pairs_with_data_.size() >= most_in_inbox) return;
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
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, box->fd(), nullptr);
    try {
      empty(*box);   // whoever asked in the last moment gets an answer
    } catch (...) {  // NOLINT(bugprone-empty-catch): or asks again
    }
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

void agent::watch_neighbour(identifier& who, const net::address& address, std::uint16_t port) {
  if (neighbours_.watch(who, address, port)) return;
  bereaved_.insert(&who);
  wake();
}

void agent::unwatch_neighbour(identifier& who) {
  neighbours_.unwatch(who);
  bereaved_.erase(&who);
}

void agent::hear_last_words() {
  if (bereaved_.empty()) return;
  std::set<engine::station*> places;
  for (const auto* const each : bereaved_) {
    if (each->device() != nullptr) places.insert(each->device()->place);
  }
  for (auto* const each : places) each->receive_pending();
  handle_inbox();
}

bool agent::tell_bereaved() {
  const bool any = !bereaved_.empty();
  while (!bereaved_.empty()) {
    auto* const who = *bereaved_.begin();
    bereaved_.erase(bereaved_.begin());
    who->on_neighbour_gone();
  }
  return any;
}

void agent::execute(const std::vector<last_will>& wills) {
  for (const auto& will : wills) {
    auto* const device = device_with(will.own);
    const auto message = wire::decode_cm(will.message);
    if (device == nullptr || !message) continue;
    static_cast<void>(engine::send_management(*device->place, will.own, will.peer, *message));
  }
}

// --- the thread ------------------------------------------------------------------------------

void agent::work() {
  time_point next = never;
  auto next_look = clock::wall::time_point::max();
  for (;;) {
    std::array<epoll_event, 16> ready{};
    const int count =
        engine::epoll_until(epoll_.get(), ready, std::min(clock::wall_time(next), next_look));
    const std::lock_guard lock(mutex);
    try {
      for (int i = 0; i < count; ++i) handle_descriptor(ready[static_cast<std::size_t>(i)].data.fd);
      handle_inbox();
      bereaved_.merge(neighbours_.look());
      hear_last_words();
      tell_bereaved();
      // While the clock is stopped, whoever moves it runs the timers.
      next = clock::is_stopped() ? never : run_timers();
    } catch (const std::exception& problem) {
      // As a network does: what could not be handled is lost, and its sender repeats it.
      log(log_level::error, "a message of the connection manager is lost: {}", problem.what());
    }
    next_look = neighbours_.next_look();
  }
}

void agent::handle_descriptor(int fd) {
  if (fd == wake_fd_.get()) {
    std::uint64_t calls = 0;
    [[maybe_unused]] const auto got = ::read(wake_fd_.get(), &calls, sizeof calls);
    return;
  }
  if (const auto found = listeners_.find(fd); found != listeners_.end()) {
    empty(*found->second.port->boxes()[found->second.box]);
    return;
  }
  auto news = neighbours_.handle(fd);
  bereaved_.merge(news.bereaved);
  execute(news.wills);
}

void agent::empty(const engine::mailbox& box) {
  constexpr int letters_per_turn = 64;
  std::vector<std::byte> memory(engine::mailbox::letter_bytes);
  engine::mailbox::letter letter;
  for (int i = 0;
       i < letters_per_turn && box.take(memory, letter, engine::mailbox::from::everybody); ++i)
    receive_letter(letter);
}

void agent::receive_letter(const engine::mailbox::letter& letter) {
  const wire::flow flow{.source = letter.source,
                        .destination = letter.destination,
                        .source_port = letter.source_port,
                        .destination_port = wire::roce_udp_port};
  const auto packet = wire::intact_packet(flow, letter.packets);
  if (!packet || packet->header.destination_qpn != wire::management_qpn) return;
  // What a user says who is not trusted is believed of its own port alone, on this host.
  if (!net::are_trusted(letter.sender) &&
      !(net::is_local(flow.source) &&
        net::owns_udp_socket(letter.sender.user, flow.source, flow.source_port)))
    return;
  engine::receive_management(flow, *packet, engine::management_datagram::way::service);
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
  for (const auto qpn : queue_pairs) data_came_to(qpn);
  return !datagrams.empty() || !queue_pairs.empty();
}

bool agent::is_cut_off(const engine::management_datagram& datagram) {
  const auto* const device = device_with(datagram.destination);
  return device != nullptr && (device->place->is_frozen() || device->place->port_is_down());
}

void agent::handle(const engine::management_datagram& datagram) {
  if (!is_believable(datagram, net::is_local(datagram.source)) || is_cut_off(datagram)) return;
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
  const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    any |= fd != wake_fd_.get();
    handle_descriptor(fd);
  }
  any |= handle_inbox();
  any |= tell_bereaved();
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
