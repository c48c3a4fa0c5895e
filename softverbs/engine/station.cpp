#include <engine/station.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <shared_mutex>
#include <utility>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <base/start_thread.hpp>
#include <engine/capture.hpp>
#include <engine/epoll_until.hpp>
#include <engine/fault_plan.hpp>
#include <engine/management.hpp>
#include <engine/queue_pair.hpp>
#include <engine/well_known_port.hpp>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wire/icrc.hpp>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

// How often the station's thread looks while users poll: the longer they have done so, the less.
constexpr clock::duration shortest_standby = 100us;
// After so long without packets the memory that a burst has taken is given back.
constexpr clock::duration time_to_be_idle = 1s;
constexpr clock::duration longest_standby = 800us;
// How long packets are awaited one by one after users have let them wait.
constexpr auto prompt_interval = 50ms;
// A busy socket is asked first; the others after this many polls.
constexpr unsigned polls_between_looks = 32;
// How long no rings are accepted when there are no descriptors for them.
constexpr auto time_without_descriptors = 100ms;
// From one ring, before the user gets its completions and other rings their turn.
constexpr std::size_t packets_per_turn = 32;

/// Everything of this process; never destroyed, because threads may run until the very end.
struct process_state {
  std::shared_mutex mutex;
  std::map<unsigned, std::weak_ptr<station>> stations;
  std::multimap<std::uint16_t, const port_lease*> leases;
  std::vector<int> descriptors;  ///< to be closed in a child
};

std::atomic<unsigned> generation = 0;
process_state* state = nullptr;

void register_fork_handlers() {
  ::pthread_atfork([] { state->mutex.lock(); }, [] { state->mutex.unlock(); },
                   [] {
                     // The parent's objects stay as they are in this copy of its memory: whatever
                     // lock another thread held is held for ever, so nothing is touched but the
                     // descriptors, which would keep the parent's ports bound.
                     for (const int fd : state->descriptors) ::close(fd);
                     state = new process_state;
                     clock::start_anew();
                     generation.fetch_add(1);
                   });
}

process_state& process() {
  static const bool once = [] {
    state = new process_state;
    register_fork_handlers();
    return true;
  }();
  static_cast<void>(once);
  return *state;
}

/// A thread that runs for microseconds at a time asks for the shortest slice, so that it preempts
/// users who spin. Kernels since 6.12 grant it to everybody; older ones ignore it.
void ask_for_short_slices() {
  // As in <linux/sched/types.h>, which cannot be included beside <sched.h>.
  struct {
    std::uint32_t size = 48;
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } wanted;
  static_assert(sizeof wanted == 48);
  ::syscall(SYS_sched_setattr, 0, &wanted, 0);
}

std::vector<net::address> own_addresses(const net::netdev& device) {
  std::vector<net::address> addresses;
  for (const auto& row : net::gid_table(device)) {
    if (!row.packets_carry) continue;
    if (std::ranges::find(addresses, *row.packets_carry) != addresses.end()) continue;
    addresses.push_back(*row.packets_carry);
  }
  return addresses;
}

}  // namespace

void close_in_children(int fd) {
  const std::unique_lock lock(process().mutex);
  process().descriptors.push_back(fd);
}

void forget_descriptor(int fd) {
  const std::unique_lock lock(process().mutex);
  std::erase(process().descriptors, fd);
}

unsigned process_generation() noexcept { return generation.load(std::memory_order_relaxed); }

std::shared_ptr<station> station::of(const net::netdev& device) {
  auto& all = process();
  std::shared_ptr<station> found;  // outlives the lock, which its end takes
  std::unique_lock lock(all.mutex);
  auto& known = all.stations[device.index];
  found = known.lock();
  if (found != nullptr) return found;
  found = std::make_shared<station>(device);
  known = found;
  found->start_thread();
  lock.unlock();  // a thread that advances the time holds its lock, and may need this one
  add_time_source(*found);
  found->follow_plan();
  return found;
}

station::station(net::netdev device)
    : traffic(traffic_counters::of(device.index)),
      device_(std::move(device)),
      slot_(device_.index),
      was_up_(device_.up),
      had_addresses_(own_addresses(device_)),
      incoming_(incoming_rings::limits_of_process(),
                [this](int fd, const void* tag) { watch(fd, source::incoming_ring, tag); }),
      sockets_epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      outer_epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      outgoing_({.in_all = incoming_rings::limits_of_process().in_all},
                [this](int fd, const void* tag) { watch(fd, source::outgoing_ring, tag); }) {
  for (const int fd : {wake_fd_.get(), sockets_epoll_.get()}) {
    epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(outer_epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
  }
  // The caller holds the process's lock.
  for (const int fd : {sockets_epoll_.get(), outer_epoll_.get(), wake_fd_.get(), changes_.fd()}) {
    if (fd >= 0) state->descriptors.push_back(fd);
  }
  if (changes_.fd() >= 0) watch(changes_.fd(), source::changes, &changes_);
}

station::~station() {
  remove_time_source(*this);
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  {
    const std::unique_lock lock(process().mutex);
    for (const auto& lease : leases_) {
      std::erase_if(process().leases, [&](const auto& each) { return each.second == lease.get(); });
      for (const auto& socket : lease->sockets()) {
        std::erase(process().descriptors, socket->fd());
      }
      for (const auto& box : lease->mailboxes()) std::erase(process().descriptors, box->fd());
      for (const auto& each : lease->ring_listeners()) {
        std::erase(process().descriptors, each->fd());
      }
    }
  }
  well_known_.clear();
  for (const auto& [address, group] : groups_) forget_descriptor(group->fd());
  for (const int fd : {sockets_epoll_.get(), outer_epoll_.get(), wake_fd_.get(), changes_.fd()})
    forget_descriptor(fd);
}

std::shared_ptr<endpoint> station::allocate_endpoint() {
  start_thread();
  const std::lock_guard lock(leases_mutex_);
  for (const auto& lease : leases_) {
    if (auto found = lease->allocate()) return found;
  }
  auto* const lease = take_lease();
  return lease != nullptr ? lease->allocate() : nullptr;
}

std::uint16_t station::management_port() {
  const std::lock_guard lock(leases_mutex_);
  const auto* const lease = leases_.empty() ? take_lease() : leases_.front().get();
  return lease != nullptr ? lease->port() : std::uint16_t{0};
}

const net::udp_socket* station::management_socket(const net::address& own) {
  const auto port = management_port();
  return port != 0 ? socket_of(std::uint32_t{port} << 8, own) : nullptr;
}

port_lease* station::take_lease() {
  // No packets come to the loopback from other hosts.
  auto lease =
      port_lease::take(own_addresses(device_), device_.index, device_.loopback ? nullptr : &slot_);
  const auto is_served = [&](const auto& port) {
    return port->failure() != 0 || port->serve(lease->port());
  };
  if (lease == nullptr || !std::ranges::all_of(well_known_, is_served)) {
    const int failure = errno;
    log(log_level::error, "no UDP port could be had on {}: {}", device_.name,
        std::strerror(failure));
    errno = failure;
    return nullptr;
  }
  {
    const std::unique_lock all(process().mutex);
    process().leases.emplace(lease->port(), lease.get());
    for (const auto& socket : lease->sockets()) process().descriptors.push_back(socket->fd());
    for (const auto& box : lease->mailboxes()) process().descriptors.push_back(box->fd());
    for (const auto& each : lease->ring_listeners()) process().descriptors.push_back(each->fd());
  }
  for (std::size_t i = 0; i < lease->sockets().size(); ++i) watch(*lease, i);
  leases_.push_back(std::move(lease));
  return leases_.back().get();
}

void station::release_endpoint(std::uint32_t qpn) {
  const std::lock_guard lock(leases_mutex_);
  for (const auto& lease : leases_) {
    if (lease->port() == qpn >> 8) lease->release(qpn);
  }
}

const net::udp_socket* station::socket_of(std::uint32_t qpn, const net::address& own) {
  const std::lock_guard lock(leases_mutex_);
  for (const auto& lease : leases_) {
    if (lease->port() != qpn >> 8) continue;
    // The address may be so new that nobody has told us of it yet.
    if (lease->socket_of(own) == nullptr) lease_address(*lease, own);
    return lease->socket_of(own);
  }
  return nullptr;
}

void station::lease_address(port_lease& lease, const net::address& own) {
  const std::unique_lock all(process().mutex);
  if (!lease.add_address(own, device_.index)) {
    log(log_level::warning, "UDP port {} of the new address {} is not to be had: {}", lease.port(),
        own.text(), std::strerror(errno));
    return;
  }
  for (const int fd : {lease.sockets().back()->fd(), lease.mailboxes().back()->fd(),
                       lease.ring_listeners().back()->fd()}) {
    process().descriptors.push_back(fd);
  }
  watch(lease, lease.sockets().size() - 1);
}

void station::watch(const port_lease& lease, std::size_t address) const {
  const auto* const socket = lease.sockets()[address].get();
  const auto* const box = lease.mailboxes()[address].get();
  const auto* const rings = lease.ring_listeners()[address].get();
  watch(socket->fd(), source::socket, socket);
  watch(box->fd(), source::letters, box);
  watch(rings->fd(), source::ring_listener, rings);
}

void station::bind_new_addresses() {
  const auto addresses = own_addresses(device_);
  bool well_known = false;
  {
    const std::lock_guard lock(leases_mutex_);
    well_known = well_known_for_all_;
    for (const auto& lease : leases_) {
      for (const auto& own : addresses) {
        if (lease->socket_of(own) == nullptr) lease_address(*lease, own);
      }
    }
  }
  if (well_known) open_well_known_ports();
}

void station::add_observer(netdev_observer& who) {
  const std::lock_guard lock(observers_mutex_);
  observers_.push_back(&who);
}

void station::remove_observer(netdev_observer& who) {
  const std::lock_guard lock(observers_mutex_);
  std::erase(observers_, &who);
}

void station::on_change() {
  asked_source_ = {};
  using change = netdev_observer::change;
  changes_.drain();
  const auto now = net::netdev_by_index(device_.index);
  const bool up = now && now->up;
  auto addresses = own_addresses(device_);
  const bool moved = addresses != had_addresses_;
  if (moved) bind_new_addresses();
  had_addresses_ = std::move(addresses);
  const bool turned = up != std::exchange(was_up_, up);
  if (turned) tell_observers(up ? change::up : change::down);
  if (moved) tell_observers(change::addresses);
}

void station::tell_observers(netdev_observer::change what) {
  const std::lock_guard lock(observers_mutex_);
  for (auto* each : observers_) each->netdev_changed(what);
}

// --- outages ---------------------------------------------------------------------------------

void station::begin_outage(fault_rule::action what,
                           std::optional<std::chrono::nanoseconds> duration, unsigned edition) {
  const bool freezes = what == fault_rule::action::freeze;
  if (edition != fault_plan::of_process().edition()) return;
  if ((freezes ? frozen_ : port_down_).exchange(true)) return;
  if (!freezes) tell_observers(netdev_observer::change::down);
  const auto end = [this, what] { end_outage(what); };
  // A plan that was replaced meanwhile does not end what it did not see.
  if (edition != fault_plan::of_process().edition()) {
    at(clock::now(), end);
  } else if (duration) {
    at(clock::now() + *duration, [edition, end] {
      if (edition == fault_plan::of_process().edition()) end();
    });
  }
}

void station::end_outage(fault_rule::action what) {
  const bool freezes = what == fault_rule::action::freeze;
  if (!(freezes ? frozen_ : port_down_).exchange(false)) return;
  if (freezes) {
    thaw();
  } else {
    tell_observers(netdev_observer::change::up);
  }
}

void station::thaw() {
  std::vector<std::shared_ptr<endpoint>> all;
  {
    const std::lock_guard lock(leases_mutex_);
    for (const auto& lease : leases_) std::ranges::copy(lease->all(), std::back_inserter(all));
  }
  for (const auto& each : all) {
    {
      const std::lock_guard lock(each->mutex);
      if (each->owner != nullptr) each->owner->on_timer(clock::now());
    }
    each->run();
  }
  deferred_work::run();
  wake();
}

void station::follow_plan() {
  end_outage(fault_rule::action::freeze);
  end_outage(fault_rule::action::port_down);
  auto& plan = fault_plan::of_process();
  const auto edition = plan.edition();
  for (const auto& each : plan.outages()) {
    at(each.begins, [this, each, edition] {
      if (edition != fault_plan::of_process().edition()) return;
      fault_plan::of_process().has_begun(each);
      begin_outage(each.what, each.duration, edition);
    });
  }
}

void follow_fault_plan() {
  std::vector<std::shared_ptr<station>> stations;
  {
    auto& all = process();
    const std::shared_lock lock(all.mutex);
    for (const auto& [index, known] : all.stations) {
      if (auto found = known.lock()) stations.push_back(std::move(found));
    }
  }
  for (const auto& each : stations) each->follow_plan();
}

int station::attach(const std::shared_ptr<endpoint>& who, const net::address& group, bool& added) {
  const std::lock_guard receiving(receiving_);
  auto& known = groups_[group];
  if (known == nullptr) {
    known = multicast_group::join(group, device_.index);
    if (known == nullptr) {
      const int failure = errno;
      groups_.erase(group);
      return failure;
    }
    close_in_children(known->fd());
    watch(known->fd(), source::group, known.get());
  }
  added = known->attach(who);
  return 0;
}

bool station::detach(const endpoint& who, const net::address& group) {
  const std::lock_guard receiving(receiving_);
  const auto known = groups_.find(group);
  if (known == groups_.end() || !known->second->detach(who)) return false;
  if (known->second->is_empty()) {
    forget_descriptor(known->second->fd());
    groups_.erase(known);
    busiest_ = 0;
  }
  return true;
}

int station::open_well_known_port(const net::address& own) {
  start_thread();
  const std::lock_guard lock(leases_mutex_);
  for (const auto& port : well_known_) {
    if (port->own_address() == own) return port->failure();
  }
  std::vector<std::uint16_t> ports;
  ports.reserve(leases_.size());
  for (const auto& lease : leases_) ports.push_back(lease->port());
  well_known_.push_back(std::make_unique<well_known_port>(*this, own, ports));
  return well_known_.back()->failure();
}

void station::open_well_known_ports() {
  if (device_.loopback) return;
  {
    const std::lock_guard lock(leases_mutex_);
    well_known_for_all_ = true;
  }
  for (const auto& own : own_addresses(device_)) {
    [[maybe_unused]] const int logged = open_well_known_port(own);
  }
}

void station::unwatch(int fd) { forget_descriptor(fd); }

void station::watch(int fd, source what, const void* object) const {
  // Objects are aligned: the lowest bits of their addresses are free.
  const auto marked = reinterpret_cast<std::uintptr_t>(object) | static_cast<std::uintptr_t>(what);
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = marked}};
  // The well-known port is shared by processes: one of them is woken for a packet, not all.
  if (what == source::well_known) interest.events |= EPOLLEXCLUSIVE;
  // Nobody sends anything back through a ring's connection: only its end is told, once.
  if (what == source::outgoing_ring) interest.events = EPOLLRDHUP | EPOLLONESHOT;
  if (::epoll_ctl(sockets_epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0 && errno == EEXIST)
    ::epoll_ctl(sockets_epoll_.get(), EPOLL_CTL_MOD, fd, &interest);
}

namespace {

/// Gives packets of one source to their queue pairs, and holds the lock of the last one as long as
/// packets for it keep coming.
class delivery {
 public:
  delivery(const net::address& source, std::uint16_t source_port, const net::address& destination,
           std::uint16_t port, bool from_this_host, bool called_by_user)
      : flow_{.source = source,
              .destination = destination,
              .source_port = source_port,
              .destination_port = port},
        from_this_host_(from_this_host),
        called_by_user_(called_by_user) {}
  delivery(const delivery&) = delete;
  delivery& operator=(const delivery&) = delete;
  ~delivery() { finish(); }

  void packet(std::span<const std::byte> datagram) {
    const auto decoded = wire::intact_packet(
        flow_, datagram, from_this_host_ ? wire::icrc_rule::zero_is_none : wire::icrc_rule::always);
    if (!decoded) return;
    capture_received(flow_, datagram);
    const auto qpn = decoded->header.destination_qpn;
    if (qpn == wire::management_qpn) {
      finish();
      receive_management(flow_, *decoded, management_datagram::arrival::own_port);
      return;
    }
    if (receiver_ == nullptr || receiver_->qpn != qpn) {
      finish();
      if (qpn >> 8 != flow_.destination_port) return;
      receiver_ = find_in_process(flow_.destination, qpn);
      if (receiver_ == nullptr) return;
      lock_ = std::unique_lock(receiver_->mutex);
    }
    if (receiver_->owner == nullptr) return;
    receiver_->owner->receive({.packet = *decoded,
                               .source = flow_.source,
                               .destination = flow_.destination,
                               .source_port = flow_.source_port,
                               .came = inbound::way::same_host});
  }

 private:
  void finish() {
    if (lock_.owns_lock()) {
      if (receiver_->owner != nullptr) receiver_->owner->after_receiving(called_by_user_);
      lock_.unlock();
    }
    receiver_ = nullptr;
  }

  wire::flow flow_;
  bool from_this_host_;
  bool called_by_user_;
  std::shared_ptr<endpoint> receiver_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace

bool station::is_of_this_host(const net::address& sender) {
  if (sender.is_loopback()) return true;
  if (asked_source_ != sender) {
    asked_source_ = sender;
    asked_source_is_local_ = net::is_local(sender);
  }
  return asked_source_is_local_;
}

bool station::receive_from(const net::udp_socket& socket) {
  const auto trains = buffers_.receive(socket);
  for (const auto& train : trains) {
    delivery into(train.source, train.source_port, socket.own_address(), socket.port(),
                  is_of_this_host(train.source), called_by_user_);
    for (auto rest = train.bytes; !rest.empty();) {
      const auto datagram = rest.first(std::min(rest.size(), train.segment_bytes));
      rest = rest.subspan(datagram.size());
      into.packet(datagram);
    }
  }
  return !trains.empty();
}

bool station::receive_rings() {
  return incoming_.read([](incoming_rings::ring& each) {
    delivery into(each.source, each.source_port, each.destination, each.destination_port, true,
                  false);
    each.reader.read(packets_per_turn,
                     [&](std::span<const std::byte> datagram) { into.packet(datagram); });
  });
}

void station::accept_rings(const ring_listener& listener) {
  if (!incoming_.accept_from(listener)) {
    stop_watching(listener.fd());
    at(clock::now() + time_without_descriptors,
       [this, &listener] { watch(listener.fd(), source::ring_listener, &listener); });
  }
}

void station::stop_watching(int fd) const {
  ::epoll_ctl(sockets_epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool station::receive_letters(const mailbox& box) {
  letter_memory_.resize(mailbox::letter_bytes);
  mailbox::letter letter;
  bool any = false;
  for (int i = 0; i < 64 && box.take(letter_memory_, letter); ++i) {
    any = true;
    well_known_port::deliver(box.own_address(), letter.source, letter.source_port, letter.packets,
                             letter.segment_bytes);
  }
  return any;
}

std::shared_ptr<ring_writer> station::ring_to(std::uint32_t qpn, const net::address& own,
                                              const net::address& to, std::uint16_t to_port) {
  if (!settings::get().shared_memory) return nullptr;
  return outgoing_.find_or_offer(
      {.own = own, .to = to, .port = static_cast<std::uint16_t>(qpn >> 8), .to_port = to_port});
}

bool station::receive_all() {
  bool any = receive_rings();
  std::array<epoll_event, 16> ready{};
  const int count = ::epoll_wait(sockets_epoll_.get(), ready.data(), ready.size(), 0);
  for (const auto& each : std::span(ready).first(static_cast<std::size_t>(std::max(count, 0)))) {
    any |= receive_from(each.data.u64, each.events);
  }
  any |= receive_rings();
  return any;
}

bool station::receive_from(std::uint64_t marked, std::uint32_t events) {
  auto* const object = reinterpret_cast<void*>(marked & ~source_bits);
  bool any = false;
  switch (static_cast<source>(marked & source_bits)) {
    case source::socket:
      any = receive_from(*static_cast<const net::udp_socket*>(object));
      break;
    case source::well_known: {
      const auto& watched = *static_cast<const well_known_port::watched*>(object);
      any = watched.port->receive(watched, buffers_);
      break;
    }
    case source::group:
      any = static_cast<const multicast_group*>(object)->receive(buffers_);
      break;
    case source::letters:
      return receive_letters(*static_cast<const mailbox*>(object));
    case source::changes:
      on_change();
      return false;
    case source::ring_listener:
      accept_rings(*static_cast<const ring_listener*>(object));
      return false;
    case source::incoming_ring:
      // Bells are for the station's thread: a user who answered one would leave it asleep with
      // its neighbours believing that it is awake.
      incoming_.on_event(object, (events & (EPOLLHUP | EPOLLERR)) != 0, !called_by_user_);
      return false;
    case source::outgoing_ring:
      outgoing_.on_end(object);
      return false;
  }
  if (any) busiest_ = marked;
  return any;
}

void station::send_deferred_acknowledgements() {
  for (const auto& who : std::exchange(acknowledgements_, {})) {
    const std::lock_guard lock(who->mutex);
    if (who->owner != nullptr) who->owner->send_acknowledgement();
  }
}

bool station::acknowledge_later(endpoint& who) {
  if (!standby_.load(std::memory_order_relaxed)) return false;
  acknowledgements_.push_back(who.shared_from_this());
  return true;
}

void station::poll() {
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  if (!receiving.owns_lock() || is_frozen()) return;
  called_by_user_ = true;
  try {
    if (!acknowledgements_.empty()) send_deferred_acknowledgements();
    if (++polls_since_look_ >= polls_between_looks) {
      polls_since_look_ = 0;
      receive_all();
    } else if (!receive_rings() && busiest_ != 0) {
      receive_from(busiest_, EPOLLIN);
    }
  } catch (const std::exception& problem) {
    packets_are_lost(problem);
  }
  called_by_user_ = false;
}

void station::user_sleeps() {
  if (standby_.load(std::memory_order_relaxed)) wake();
}

void station::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof one);
}

void station::set_timer(endpoint& who, time_point when) {
  if (who.timer_set_for <= when) return;
  add_timer({.when = when, .who = who.shared_from_this(), .function = {}});
  who.timer_set_for = when;
}

void station::at(time_point when, std::function<void()> function) {
  add_timer({.when = when, .who = {}, .function = std::move(function)});
}

void station::add_timer(timer added) {
  const auto when = added.when;
  {
    const std::lock_guard lock(timers_mutex_);
    added.order = timers_set_++;
    timers_.push(std::move(added));
  }
  // Announced by the thread before it reads the timers.
  if (thread_sleeps_until_.load() > clock::wall_time(when).time_since_epoch().count()) wake();
}

time_point station::next_due() {
  const std::lock_guard lock(timers_mutex_);
  return timers_.empty() ? never : timers_.top().when;
}

time_point station::run_timers() {
  for (;;) {
    timer due;
    {
      const std::lock_guard lock(timers_mutex_);
      if (timers_.empty()) return never;
      if (timers_.top().when > clock::now()) return timers_.top().when;
      due = timers_.top();
      timers_.pop();
    }
    run_timer(due);
    deferred_work::run();
  }
}

void station::run_timer(const timer& due) const {
  if (due.function) {
    due.function();
    return;
  }
  const std::lock_guard lock(due.who->mutex);
  // An earlier one has taken its place, and has set what was needed after it.
  if (due.when != due.who->timer_set_for) return;
  due.who->timer_set_for = never;
  if (due.who->owner != nullptr && !is_frozen()) due.who->owner->on_timer(clock::now());
}

bool station::settle() {
  bool any = false;
  if (!is_frozen()) {
    const std::lock_guard receiving(receiving_);
    send_deferred_acknowledgements();
    any = receive_all();
  }
  deferred_work::run();
  return any;
}

void station::receive_pending() {
  constexpr int most_rounds = 256;  // others may go on sending
  for (int i = 0; i < most_rounds && settle(); ++i) {
  }
}

void station::start_thread() {
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) return;
  thread_ = softverbs::start_thread("softverbs", [this] { work(); });
}

void station::set_standby(bool standby) {
  if (standby_.exchange(standby) == standby) return;
  epoll_event interest{.events = standby ? 0U : static_cast<std::uint32_t>(EPOLLIN),
                       .data = {.fd = sockets_epoll_.get()}};
  ::epoll_ctl(outer_epoll_.get(), EPOLL_CTL_MOD, sockets_epoll_.get(), &interest);
}

clock::wall::time_point station::time_to_wake(bool standby, clock::duration look_after) {
  // Announced before the timers are read, so that a timer set meanwhile wakes this thread.
  thread_sleeps_until_ = never.time_since_epoch().count();
  // While the clock is stopped, whoever moves it runs the timers.
  const auto timers =
      clock::is_stopped() ? clock::wall::time_point::max() : clock::wall_time(run_timers());
  if (is_frozen()) return timers;
  const auto soon = std::min(timers, clock::wall::now() + look_after);
  if (standby) return soon;
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  if (!receiving.owns_lock()) return soon;  // a user receives: the rings cannot be looked at
  return incoming_.prepare_for_sleep() ? timers : clock::wall::now();
}

bool station::sleep_until(clock::wall::time_point until) {
  thread_sleeps_until_ = until.time_since_epoch().count();
  std::array<epoll_event, 2> ready{};
  epoll_until(outer_epoll_.get(), ready, until);
  thread_sleeps_until_ = 0;
  std::uint64_t calls = 0;  // the descriptor does not block
  return ::read(wake_fd_.get(), &calls, sizeof calls) == sizeof calls;
}

// As a network does: what could not be handled is lost, and its sender repeats it.
void station::packets_are_lost(const std::exception& problem) const noexcept {
  log(log_level::error, "packets to {} are lost: {}", device_.name, problem.what());
}

void station::work() {
  ask_for_short_slices();
  std::uint64_t polls_seen = 0;
  auto prompt_until = clock::wall::time_point::min();
  auto look_after = shortest_standby;
  auto idle_at = clock::wall::time_point::max();
  while (!stopping_) {
    // Frozen, it waits for its timers alone: standing by, it does not hear of packets.
    if (is_frozen()) set_standby(true);
    const bool standby = standby_.load(std::memory_order_relaxed);
    auto wake_at = clock::wall::now() + shortest_standby;
    try {
      wake_at = time_to_wake(standby, look_after);
    } catch (const std::exception& problem) {
      packets_are_lost(problem);
    }
    const bool woken = sleep_until(std::min(wake_at, idle_at));
    if (is_frozen()) continue;
    const auto polls = polls_.load(std::memory_order_relaxed);
    const bool users_poll = polls - std::exchange(polls_seen, polls) > 1;
    const auto now = clock::wall::now();
    if (users_poll) idle_at = now + time_to_be_idle;
    // While users poll, they do the work, and this thread must not stand in their way.
    if (standby && users_poll && !woken) {
      look_after = std::min(2 * look_after, longest_standby);
      continue;
    }
    look_after = shortest_standby;
    try {
      const std::lock_guard receiving(receiving_);
      send_deferred_acknowledgements();
      const bool found = receive_all();
      if (standby && found && !users_poll) prompt_until = now + prompt_interval;
      if (found) idle_at = now + time_to_be_idle;
    } catch (const std::exception& problem) {
      packets_are_lost(problem);
    }
    deferred_work::run();
    set_standby(users_poll && !woken && now >= prompt_until);
    if (now >= idle_at) {
      outgoing_.release_memory();
      idle_at = clock::wall::time_point::max();
    }
  }
}

bool holds_port(const net::address& own, std::uint16_t port) {
  auto& all = process();
  const std::shared_lock lock(all.mutex);
  const auto [first, last] = all.leases.equal_range(port);
  return std::any_of(first, last,
                     [&](const auto& each) { return each.second->socket_of(own) != nullptr; });
}

std::shared_ptr<endpoint> find_in_process(const net::address& destination, std::uint32_t qpn) {
  auto& all = process();
  const std::shared_lock lock(all.mutex);
  const auto [first, last] = all.leases.equal_range(static_cast<std::uint16_t>(qpn >> 8));
  for (auto each = first; each != last; ++each) {
    if (each->second->socket_of(destination) != nullptr) return each->second->find(qpn);
  }
  return nullptr;
}

}  // namespace softverbs::engine
