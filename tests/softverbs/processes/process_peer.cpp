// One process of a test with many: it does what it is told on standard input, line by line, and
// answers each line with one or more on standard output. It knows only libibverbs.
//
//   process_peer <device> <4 or 6: the kind of GID>
//
//   queue <n>                       answers "queues" and, for each queue pair, what `connect` of
//   the
//                                   other side wants to know of it
//   use <GID>                       the address of further connections, as soon as the device has
//                                   it; answers "used"
//   connect <queue> <it> [timeout retries]
//                                   answers "connected", or "refused" and the errno
//   transfer <bytes> <queue>:<sends>:<receives> …
//                                   answers "moving" when the first message has gone, "done" after
//                                   the last
//   operate <rounds> <bytes>        writes, reads and atomics through queue 0; answers "done"
//   flood <bytes>                   sends through queue 0 until that fails; answers "moving", then
//                                   "failed <status> after <µs since the last success>"
//   receive_and_die <bytes> <n>     receives n messages through queue 0 and is killed
//   occupy <port>                   holds a UDP port
//   fork                            has a child that does nothing until standard input ends
//
// Whatever goes wrong is a message on standard error and the end.

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using steady = std::chrono::steady_clock;

constexpr unsigned most_seconds = 120;  // whoever started it has forgotten it
constexpr auto patience = std::chrono::seconds(40);
constexpr std::size_t longest_message = std::size_t{1} << 20;
constexpr std::size_t depth = 16;  // requests of a queue that are under way at once
constexpr std::size_t offsets = std::size_t{64} * 1024;  // where messages begin in the pattern
constexpr int polls_before_sleep = 200;
constexpr std::uint32_t first_psn = 0xfffff0;  // wraps soon
constexpr int everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << why << '\n';
  std::_Exit(1);
}

void need(bool condition, const std::string& what) {
  if (!condition) give_up(what + " failed: " + std::strerror(errno));
}

template <class T>
[[nodiscard]] T* need(T* made, const std::string& what) {
  need(made != nullptr, what);
  return made;
}

void say(const std::string& line) { std::cout << line << '\n' << std::flush; }

std::string text_of(const ibv_gid& gid) {
  std::string text;
  for (const auto byte : gid.raw) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

ibv_gid gid_of(std::string_view text) {
  ibv_gid gid{};
  need(text.size() == 2 * sizeof gid.raw, "reading a GID");
  for (std::size_t i = 0; i < sizeof gid.raw; ++i) {
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, gid.raw[i], 16);
  }
  return gid;
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, mapped, sizeof mapped) == 0;
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && gid.raw[1] == 0x80; }

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Memory that the device knows.
struct registered {
  registered(ibv_pd* pd, std::size_t bytes)
      : memory(bytes),
        region(need(ibv_reg_mr(pd, memory.data(), bytes, everything), "ibv_reg_mr")) {}

  std::vector<std::uint8_t> memory;
  ibv_mr* region;
};

/// What the other side of a connection tells of itself.
struct side {
  std::uint32_t number = 0;
  ibv_gid gid{};
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

struct queue {
  ibv_qp* qp = nullptr;
  side peer;
  registered* slots = nullptr;  ///< where its receive requests put messages
  std::uint64_t sent = 0;       ///< messages that were ever posted
  std::uint64_t completed = 0;
  std::uint64_t received = 0;
  std::uint64_t expected = 0;  ///< messages that receive requests were posted for
};

/// Where message `count` of the sender with that queue pair number begins in the pattern.
std::size_t offset_of(std::uint32_t number, std::uint64_t count) {
  return (number * 40503ULL + count * 7919ULL) % offsets;
}

class peer {
 public:
  peer(const char* device, bool ipv4)
      : context_(open(device)),
        pd_(need(ibv_alloc_pd(context_), "ibv_alloc_pd")),
        channel_(need(ibv_create_comp_channel(context_), "ibv_create_comp_channel")),
        cq_(need(ibv_create_cq(context_, 4096, nullptr, channel_, 0), "ibv_create_cq")),
        pattern_(pd_, offsets + longest_message),
        target_(pd_, longest_message),
        landing_(pd_, longest_message) {
    std::mt19937_64 random(4791);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same for all
    std::ranges::generate(pattern_.memory, [&] { return static_cast<std::uint8_t>(random()); });
    ibv_port_attr port{};
    need(ibv_query_port(context_, 1, &port) == 0, "ibv_query_port");
    mtu_ = port.active_mtu;
    const bool found =
        select([&](const ibv_gid& gid) { return is_ipv4(gid) == ipv4 && !is_link_local(gid); });
    if (!found) give_up("the device has no such GID");
  }

  void use(std::istream& words) {
    std::string text;
    words >> text;
    const auto deadline = steady::now() + patience;
    while (!select([&](const ibv_gid& gid) { return text_of(gid) == text; })) {
      if (steady::now() > deadline) give_up("the device does not get the GID " + text);
    }
    say("used");
  }

  void make_queues(std::istream& words) {
    std::size_t count = 0;
    words >> count;
    std::ostringstream answer;
    answer << "queues";
    for (std::size_t i = 0; i < count; ++i) {
      ibv_qp_init_attr wanted{};
      wanted.send_cq = wanted.recv_cq = cq_;
      wanted.qp_type = IBV_QPT_RC;
      wanted.sq_sig_all = 1;
      wanted.cap = {.max_send_wr = depth,
                    .max_recv_wr = depth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
      queue made;
      made.qp = need(ibv_create_qp(pd_, &wanted), "ibv_create_qp");
      ibv_qp_attr attributes{};
      attributes.qp_state = IBV_QPS_INIT;
      attributes.port_num = 1;
      attributes.qp_access_flags = everything;
      need(ibv_modify_qp(made.qp, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
           "the state INIT");
      answer << ' ' << made.qp->qp_num << ' ' << text_of(gid_) << ' ' << target_.region->rkey << ' '
             << address_of(target_.memory.data());
      queues_.push_back(std::move(made));
    }
    say(answer.str());
  }

  void connect(std::istream& words) {
    std::size_t index = 0;
    std::string gid;
    side other;
    unsigned timeout = 14;
    unsigned retries = 7;
    words >> index >> other.number >> gid >> other.rkey >> other.address;
    if (unsigned wanted = 0; words >> wanted) timeout = wanted;
    if (unsigned wanted = 0; words >> wanted) retries = wanted;
    other.gid = gid_of(gid);
    auto& with = queues_.at(index);
    with.peer = other;
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTR;
    wanted.path_mtu = mtu_;
    wanted.dest_qp_num = other.number;
    wanted.rq_psn = first_psn;
    wanted.max_dest_rd_atomic = 4;
    wanted.min_rnr_timer = 6;
    wanted.ah_attr.is_global = 1;
    wanted.ah_attr.port_num = 1;
    wanted.ah_attr.grh.dgid = other.gid;
    wanted.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    wanted.ah_attr.grh.hop_limit = 64;
    const int failure =
        ibv_modify_qp(with.qp, &wanted,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (failure != 0) {
      say(std::string("refused ") + strerrorname_np(failure));
      return;
    }
    wanted.qp_state = IBV_QPS_RTS;
    wanted.sq_psn = first_psn;
    wanted.timeout = static_cast<std::uint8_t>(timeout);
    wanted.retry_cnt = static_cast<std::uint8_t>(retries);
    wanted.rnr_retry = 7;
    wanted.max_rd_atomic = 4;
    need(ibv_modify_qp(with.qp, &wanted,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "the state RTS");
    say("connected");
  }

  void transfer(std::istream& words) {
    struct goal {
      queue& through;
      std::uint64_t sends;
      std::uint64_t receives;
    };
    std::size_t bytes = 0;
    words >> bytes;
    std::vector<goal> goals;
    std::size_t index = 0;
    std::uint64_t sends = 0;
    std::uint64_t receives = 0;
    char colon = 0;
    while (words >> index >> colon >> sends >> colon >> receives) {
      auto& through = queues_.at(index);
      make_slots(through, bytes);
      goals.push_back({through, through.sent + sends, through.received + receives});
    }
    const auto is_open = [](const goal& each) {
      return each.through.completed < each.sends || each.through.received < each.receives;
    };
    bool moving = false;
    for (;;) {
      for (auto& each : goals) {
        auto& through = each.through;
        while (through.expected < each.receives && through.expected - through.received < depth) {
          post_receive(through, bytes);
        }
        while (through.sent < each.sends && through.sent - through.completed < depth) {
          post_send(through, bytes);
        }
      }
      if (std::ranges::none_of(goals, is_open)) break;
      const auto completion = next_completion();
      if (completion.status != IBV_WC_SUCCESS)
        give_up("a request ended with " + name_of(completion));
      count(completion, bytes);
      if (!std::exchange(moving, true)) say("moving");
    }
    say("done");
  }

  void operate(std::istream& words) {
    std::uint64_t rounds = 0;
    std::size_t bytes = 0;
    words >> rounds >> bytes;
    auto& through = queues_.at(0);
    std::uint64_t counter = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto offset = offset_of(through.qp->qp_num, round);
      // The first word of the target is for the atomics.
      const auto target = through.peer.address + sizeof counter;
      access(through, IBV_WR_RDMA_WRITE, pattern_, offset, bytes - sizeof counter, target);
      access(through, IBV_WR_RDMA_READ, landing_, 0, bytes - sizeof counter, target);
      if (std::memcmp(landing_.memory.data(), pattern_.memory.data() + offset,
                      bytes - sizeof counter) != 0) {
        give_up("what was read is not what was written");
      }
      if (round == 0) counter = atomic(through, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0);
      need(atomic(through, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0) == counter, "fetch and add");
      need(atomic(through, IBV_WR_ATOMIC_CMP_AND_SWP, counter + 5, counter * 3) == counter + 5,
           "compare and swap");
      counter = counter * 3;
      need(atomic(through, IBV_WR_ATOMIC_CMP_AND_SWP, counter + 1, 0) == counter,
           "compare and not swap");
    }
    say("done");
  }

  void flood(std::istream& words) {
    std::size_t bytes = 0;
    words >> bytes;
    auto& through = queues_.at(0);
    make_slots(through, bytes);
    while (through.expected - through.received < depth) post_receive(through, bytes);
    auto last_success = steady::now();
    ibv_wc completion{};
    for (bool moving = false;;) {
      while (through.sent - through.completed < depth) post_send(through, bytes);
      if (!std::exchange(moving, true)) say("moving");
      completion = next_completion();
      if (completion.status != IBV_WC_SUCCESS) break;
      count(completion, bytes);
      last_success = steady::now();
    }
    const auto waited =
        std::chrono::duration_cast<std::chrono::microseconds>(steady::now() - last_success);
    // All others are flushed, and so is what comes later.
    ++through.completed;
    post_send(through, bytes);
    while (through.completed < through.sent || through.received < through.expected) {
      const auto flushed = next_completion();
      if (flushed.status != IBV_WC_WR_FLUSH_ERR) give_up("flushed with " + name_of(flushed));
      ++(is_send(flushed) ? through.completed : through.received);
    }
    say("failed " + name_of(completion) + " after " + std::to_string(waited.count()));
  }

  void receive_and_die(std::istream& words) {
    std::size_t bytes = 0;
    std::uint64_t messages = 0;
    words >> bytes >> messages;
    auto& through = queues_.at(0);
    make_slots(through, bytes);
    say("receiving");
    while (through.received < messages) {
      while (through.expected - through.received < depth) post_receive(through, bytes);
      const auto completion = next_completion();
      if (completion.status != IBV_WC_SUCCESS)
        give_up("a request ended with " + name_of(completion));
      count(completion, bytes);
    }
    ::kill(::getpid(), SIGKILL);
  }

 private:
  static constexpr std::uint64_t sending = std::uint64_t{1} << 63U;

  [[nodiscard]] static ibv_context* open(const char* name) {
    auto** const list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
    ibv_context* opened = nullptr;
    for (auto** each = list; *each != nullptr; ++each) {
      if (std::string_view(ibv_get_device_name(*each)) == name) opened = ibv_open_device(*each);
    }
    ibv_free_device_list(list);
    return need(opened, std::string("opening ") + name);
  }

  template <class Predicate>
  bool select(Predicate is_wanted) {
    ibv_gid gid{};
    for (int index = 0; ibv_query_gid(context_, 1, index, &gid) == 0; ++index) {
      if (!is_wanted(gid)) continue;
      gid_ = gid;
      gid_index_ = index;
      return true;
    }
    return false;
  }

  [[nodiscard]] static bool is_send(const ibv_wc& completion) {
    return (completion.wr_id & sending) != 0;
  }

  [[nodiscard]] static std::string name_of(const ibv_wc& completion) {
    switch (completion.status) {
      case IBV_WC_RETRY_EXC_ERR:
        return "RETRY_EXC";
      case IBV_WC_WR_FLUSH_ERR:
        return "WR_FLUSH";
      default:
        return ibv_wc_status_str(completion.status);
    }
  }

  void make_slots(queue& of, std::size_t bytes) {
    if (of.slots != nullptr && of.slots->memory.size() >= depth * bytes) return;
    of.slots = &slots_.emplace_back(pd_, depth * bytes);
  }

  [[nodiscard]] static std::uint8_t* slot(const queue& of, std::uint64_t message,
                                          std::size_t bytes) {
    return of.slots->memory.data() + message % depth * bytes;
  }

  void post_receive(queue& through, std::size_t bytes) {
    ibv_sge element{.addr = address_of(slot(through, through.expected, bytes)),
                    .length = static_cast<std::uint32_t>(bytes),
                    .lkey = through.slots->region->lkey};
    ibv_recv_wr request{};
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(through.qp, &request, &bad) == 0, "ibv_post_recv");
    ++through.expected;
  }

  void post_send(queue& through, std::size_t bytes) {
    const auto offset = offset_of(through.qp->qp_num, through.sent);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    post(through, request, pattern_, offset, bytes);
    ++through.sent;
  }

  static void post(const queue& through, ibv_send_wr request, const registered& local,
                   std::size_t offset, std::size_t bytes) {
    ibv_sge element{.addr = address_of(local.memory.data() + offset),
                    .length = static_cast<std::uint32_t>(bytes),
                    .lkey = local.region->lkey};
    request.wr_id = sending;
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    const int failure = ibv_post_send(through.qp, &request, &bad);
    errno = failure;
    need(failure == 0, "ibv_post_send");
  }

  void access(const queue& through, ibv_wr_opcode opcode, const registered& local,
              std::size_t offset, std::size_t bytes, std::uint64_t target) {
    ibv_send_wr request{};
    request.opcode = opcode;
    request.wr.rdma.remote_addr = target;
    request.wr.rdma.rkey = through.peer.rkey;
    post(through, request, local, offset, bytes);
    finish_one();
  }

  [[nodiscard]] std::uint64_t atomic(const queue& through, ibv_wr_opcode opcode,
                                     std::uint64_t compare_or_add, std::uint64_t swap) {
    ibv_send_wr request{};
    request.opcode = opcode;
    request.wr.atomic.remote_addr = through.peer.address;
    request.wr.atomic.rkey = through.peer.rkey;
    request.wr.atomic.compare_add = compare_or_add;
    request.wr.atomic.swap = swap;
    post(through, request, landing_, 0, sizeof(std::uint64_t));
    finish_one();
    std::uint64_t original = 0;
    std::memcpy(&original, landing_.memory.data(), sizeof original);
    return original;
  }

  void finish_one() {
    const auto completion = next_completion();
    if (completion.status != IBV_WC_SUCCESS)
      give_up("an operation ended with " + name_of(completion));
  }

  /// A success: whatever was received has to be what the other side sent.
  void count(const ibv_wc& completion, std::size_t bytes) {
    const auto through = std::ranges::find_if(
        queues_, [&](const queue& each) { return each.qp->qp_num == completion.qp_num; });
    if (is_send(completion)) {
      ++through->completed;
      return;
    }
    const auto* const message = slot(*through, through->received, bytes);
    const auto offset = offset_of(through->peer.number, through->received);
    if (completion.byte_len != bytes ||
        std::memcmp(message, pattern_.memory.data() + offset, bytes) != 0) {
      give_up("message " + std::to_string(through->received) + " is not what was sent");
    }
    ++through->received;
  }

  [[nodiscard]] ibv_wc next_completion() {
    ibv_wc completion{};
    const auto look = [&] {
      const int found = ibv_poll_cq(cq_, 1, &completion);
      need(found >= 0, "ibv_poll_cq");
      return found == 1;
    };
    for (int i = 0; i < polls_before_sleep; ++i) {
      if (look()) return completion;
    }
    const auto until = steady::now() + patience;
    while (steady::now() < until) {
      need(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
      if (look()) return completion;
      pollfd bell{.fd = channel_->fd, .events = POLLIN, .revents = 0};
      if (::poll(&bell, 1, 1000) <= 0) continue;
      ibv_cq* which = nullptr;
      void* ignored = nullptr;
      need(ibv_get_cq_event(channel_, &which, &ignored) == 0, "ibv_get_cq_event");
      ibv_ack_cq_events(which, 1);
      if (look()) return completion;
    }
    give_up("nothing has completed for a long time");
  }

  ibv_context* context_;
  ibv_pd* pd_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  registered pattern_;  ///< all messages are parts of it
  registered target_;   ///< of the other side's writes, reads and atomics
  registered landing_;
  ibv_mtu mtu_ = IBV_MTU_256;
  ibv_gid gid_{};
  int gid_index_ = 0;
  std::vector<queue> queues_;
  std::deque<registered> slots_;
};

void occupy(std::istream& words) {
  std::uint16_t port = 0;
  words >> port;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  need(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0, "occupying a port");
  say("occupied");
}

void have_child() {
  const auto child = ::fork();
  need(child >= 0, "fork");
  if (child > 0) {
    say("forked");
    return;
  }
  ::close(STDOUT_FILENO);
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  std::_Exit(0);
}

}  // namespace

int main(int count, char** words) {
  const std::span arguments(words, static_cast<std::size_t>(count));
  if (arguments.size() != 3) give_up("process_peer <device> <4 or 6>");
  ::alarm(most_seconds);
  peer self(arguments[1], std::string_view(arguments[2]) == "4");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream command(line);
    std::string what;
    command >> what;
    if (what == "queue") {
      self.make_queues(command);
    } else if (what == "use") {
      self.use(command);
    } else if (what == "connect") {
      self.connect(command);
    } else if (what == "transfer") {
      self.transfer(command);
    } else if (what == "operate") {
      self.operate(command);
    } else if (what == "flood") {
      self.flood(command);
    } else if (what == "receive_and_die") {
      self.receive_and_die(command);
    } else if (what == "occupy") {
      occupy(command);
    } else if (what == "fork") {
      have_child();
    } else {
      give_up("not understood: " + line);
    }
  }
  return 0;
}
