// The memory that the transport may touch: regions and windows by their keys.
//
// A key is an index (upper 24 bits) and a tag (lower 8), both drawn at random: who knows one key
// knows nothing about others. The tag alone is the user's in windows of type 2 (ibv_inc_rkey). The
// last indices that were freed are not drawn, so that a late packet does not meet a successor. The
// table is a hash table with open addressing whose hash is the index itself.
//
// Every access to user memory happens inside a `use` of the table: deregistering waits for the uses
// that are under way and lets no later one find the key. Any thread may call any function; nobody
// adds or removes anything from inside a use.
//
// Regions and windows belong to the front end, which takes them out before it destroys them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <transport/memory_domain.hpp>

namespace softverbs::transport {

/// Everything but the key is set by the front end before it adds the region.
struct memory_region {
  std::byte* start = nullptr;
  std::uint64_t size = 0;
  std::uint64_t iova = 0;  ///< by which requests know its first byte
  unsigned rights = 0;     ///< access::…
  memory_domain domain{};
  std::uint32_t key = 0;
  unsigned windows = 0;  ///< bound to it; guarded by the table's lock
};

/// Domain and kind are set by the front end before it adds the window.
struct memory_window {
  memory_domain domain{};
  /// A window of type 2B: bound through a queue pair, and the tag of its key is the user's choice.
  bool is_type_2 = false;
  std::uint32_t next_key = 0;  ///< that the next binding has, or the current one
  std::uint32_t bound_key = 0;
  memory_region* bound_to = nullptr;
  std::uint64_t address = 0;  ///< by which peers know its first byte
  std::uint64_t offset = 0;   ///< of its first byte in the region
  std::uint64_t bytes = 0;
  unsigned rights = 0;
  std::uint32_t qpn = 0;  ///< type 2: the queue pair it is bound through
};

class memory_keys {
 public:
  explicit memory_keys(std::size_t most) : most_(most) {}

  /// What the memory is to be used for.
  struct request {
    std::uint32_t key = 0;
    memory_domain domain{};
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    unsigned rights = 0;    ///< all of these are needed
    bool remote = false;    ///< an rkey from a packet (windows count), not an lkey
    std::uint32_t qpn = 0;  ///< of the queue pair that the packet came to
  };

  /// While it lives, what it has located stays registered.
  class use {
   public:
    explicit use(const memory_keys& table) : table_(table), lock_(table.mutex_) {}
    /// The bytes in this process, or null if the key, the domain, the bounds or the rights forbid
    /// it.
    [[nodiscard]] std::byte* locate(const request& wanted) const noexcept;

   private:
    const memory_keys& table_;
    std::shared_lock<ranked_shared_mutex<lock_rank::memory>> lock_;
  };

  /// Gives it a key; false if the table is full.
  [[nodiscard]] bool add(memory_region& region);
  /// False if windows are bound to it.
  [[nodiscard]] bool remove(memory_region& region);
  /// Calls `change` while nobody uses the table. The key stays: peers have been told it. False if
  /// windows are bound to the region.
  template <class Change>
  [[nodiscard]] bool replace(memory_region& region, Change change) {
    const std::unique_lock lock(mutex_);
    if (region.windows != 0) return false;
    change();
    return true;
  }
  /// Calls `visit` for the region of that key and domain, while it cannot be removed; false if
  /// there is none.
  template <class Visit>
  [[nodiscard]] bool with_region(std::uint32_t key, memory_domain domain, Visit visit) {
    const std::unique_lock lock(mutex_);
    auto* const found = region_of(key, domain);
    if (found == nullptr) return false;
    visit(*found);
    return true;
  }

  /// Gives it a key; false if the table is full.
  [[nodiscard]] bool add(memory_window& window);
  /// The key of the next binding of a window of type 1, which its user learns at once.
  [[nodiscard]] std::uint32_t choose_key(memory_window& window);
  void remove(memory_window& window);
  struct binding {
    memory_window* window = nullptr;
    memory_region* region = nullptr;
    std::uint32_t region_key = 0;
    std::uint32_t rkey = 0;  ///< type 1: what choose_key gave; type 2: the user's choice
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;  ///< 0 unbinds a window of type 1
    unsigned rights = 0;
    memory_domain domain{};  ///< of the queue pair
    std::uint32_t qpn = 0;
  };
  /// False if a rule forbids it (10.6.7.2). Window and region may have been destroyed: they are not
  /// touched before the table has been asked.
  [[nodiscard]] bool bind(const binding& wanted);
  /// Invalidates a window of type 2; false if the key does not name a bound one of this domain and
  /// queue pair.
  [[nodiscard]] bool invalidate(std::uint32_t rkey, memory_domain domain, std::uint32_t qpn);
  /// Windows that were bound through the queue pair lose their binding with it.
  void forget_queue_pair(std::uint32_t qpn);

 private:
  struct slot {
    memory_region* region = nullptr;
    memory_window* window = nullptr;
    std::uint32_t index = 0;  ///< 0: the slot is empty, so a key of 0 is always wrong
    std::uint8_t tag = 0;
  };

  /// Where the index is, or the empty slot where it would be.
  [[nodiscard]] std::size_t position_of(std::uint32_t index) const noexcept;
  [[nodiscard]] const slot& find(std::uint32_t key) const noexcept;
  [[nodiscard]] slot& find(std::uint32_t key) noexcept;
  [[nodiscard]] memory_region* region_of(std::uint32_t key, memory_domain domain) const noexcept;
  [[nodiscard]] std::uint32_t draw();
  [[nodiscard]] slot* take_slot(std::uint32_t& key);
  void free_slot(std::uint32_t key);
  void grow();
  void unbind(memory_window& window);

  std::size_t most_;
  mutable ranked_shared_mutex<lock_rank::memory> mutex_;
  std::vector<slot> slots_{16};  // a power of two, at most half of them taken
  std::size_t taken_ = 0;
  std::array<std::uint32_t, 64> drawn_{};  // random numbers not used yet
  std::size_t drawn_left_ = 0;
  std::array<std::uint32_t, 64> freed_{};  // the last indices that were freed
  std::size_t next_freed_ = 0;
};

}  // namespace softverbs::transport
