#pragma once

// handle: who keeps a verbs object alive.
//
// In C, destroying a verbs object before its children is undefined behaviour. Here each object has
// one heap block, its *resource*, which counts its references and holds references to its parents.
// Handles are what users hold:
//
//   shared_handle   copyable; for inner nodes that children refer to (context, protection_domain …)
//   unique_handle   move-only; for leaves (queue_pair, memory_region …)
//
// When the last reference goes, the resource calls its C destroy function. If that fails, the
// resource is leaked, with all that it refers to (parents, buffers), and the failure is logged:
// memory that a device may still write must not be freed. In a child of a fork(2) the parent's
// objects are left alone: nothing is destroyed, freed or logged there.
//
// Handles cache the native pointer, so the data path never reads the block; and the block's address
// never changes, so the C object's *_context can point to it.
//
// Threads: reference counting is atomic; distinct handles of one object may be copied and destroyed
// in different threads. Do not assign to one handle object in one thread while another thread uses
// it.
//
// An empty handle may be destroyed, assigned to, moved, compared and described; every other call on
// it violates a precondition (core/precondition.hpp).

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/precondition.hpp>

namespace RDMAXX_NAMESPACE {

/// Who destroys an adopted C object.
enum class ownership : std::uint8_t {
  owned,  ///< the last handle does, with the C library's ordinary function or `adoption::destroy`
  borrowed,  ///< the caller does, after the last handle has gone
};
[[nodiscard]] std::string_view describe(ownership kind) noexcept;

/// How to take over a C object that was created elsewhere.
struct adoption {
  ownership kind = ownership::owned;
  /// Called instead of the ordinary destroy function, e.g. rdma_destroy_qp; returns 0 or an errno.
  std::function<int()> destroy{};
  /// Released after the object has been destroyed: anything that the object needs and rdmaxx does
  /// not know of.
  std::shared_ptr<void> keep_alive{};
};

namespace detail {

class resource {
 public:
  resource() = default;
  resource(const resource&) = delete;
  resource& operator=(const resource&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  /// For events that find their object through a C pointer: false if it is already being destroyed.
  [[nodiscard]] bool try_retain() noexcept;
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }

  /// True if the object belongs to the parent of this process.
  [[nodiscard]] bool is_made_before_fork() const noexcept {
    return generation_ != fork_generation();
  }
  [[nodiscard]] result<void> check_process(std::string_view operation) const {
    return check_generation(generation_, operation);
  }

 protected:
  virtual ~resource() = default;

 private:
  /// Calls the C destroy function; returns its result. 0 for objects that are not owned.
  [[nodiscard]] virtual int destroy() noexcept = 0;
  /// "ibv_destroy_qp(queue_pair 0x11 on rxe0)", for the log.
  [[nodiscard]] virtual std::string destroy_call() const = 0;

  void end() noexcept;

  std::atomic<std::uint32_t> references_{1};
  const std::uint32_t generation_ = fork_generation();
};

/// The block of one C object: its pointer and how to destroy it. Derived blocks add references to
/// parents.
template <class Native>
class native_resource : public resource {
 public:
  /// `function` and `call` name the C library's function for objects made by this library.
  native_resource(int (*function)(Native*), const char* call) noexcept
      : destroy_(function), call_(call) {}

  /// Set once the C object exists. Until then the block is freed without a destroy call.
  Native* native = nullptr;
  adoption adopted{};

 private:
  [[nodiscard]] int destroy() noexcept override {
    if (native == nullptr) return 0;
    prepare_end();
    const int rc = adopted.kind == ownership::borrowed ? 0 : destroy_native();
    if (rc == 0) let_go();
    return rc;
  }
  [[nodiscard]] int destroy_native() noexcept {
    return adopted.destroy ? adopted.destroy() : destroy_(native);
  }
  [[nodiscard]] std::string destroy_call() const override {
    return std::string(call_) + "(" + name() + ")";
  }

  /// Runs before the destroy call, to release what it would wait for. The C object still exists,
  /// its handles do not.
  virtual void prepare_end() noexcept {}
  /// The C object has been destroyed or handed back to its owner; `native` is only a number now.
  virtual void let_go() noexcept {}
  /// "queue_pair 0x11 on rxe0"; uses only remembered facts, because the C object may already be
  /// partly destroyed.
  [[nodiscard]] virtual std::string name() const = 0;

  int (*destroy_)(Native*);
  const char* call_;
};

/// A counted pointer to a resource; the constructor takes over the reference that a new block
/// starts with.
class reference {
 public:
  reference() noexcept = default;
  explicit reference(resource* target) noexcept : target_(target) {}
  reference(const reference& other) noexcept : target_(other.target_) {
    if (target_ != nullptr) target_->retain();
  }
  reference(reference&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
  reference& operator=(reference other) noexcept {
    std::swap(target_, other.target_);
    return *this;
  }
  ~reference() {
    if (target_ != nullptr) target_->release();
  }

  [[nodiscard]] resource* get() const noexcept { return target_; }
  explicit operator bool() const noexcept { return target_ != nullptr; }

 private:
  resource* target_ = nullptr;
};

}  // namespace detail

namespace detail {
struct handle_access;
}

/// What both kinds of handle share. `Native` is the C type.
template <class Native>
class handle {
 public:
  /// The C object; null in an empty (default-constructed or moved-from) handle.
  [[nodiscard]] Native* native() const noexcept { return native_; }
  explicit operator bool() const noexcept { return native_ != nullptr; }

  friend bool operator==(const handle& a, const handle& b) noexcept {
    return a.native_ == b.native_;
  }

 protected:
  handle() noexcept = default;
  handle(Native* native, detail::reference block) noexcept
      : native_(native), block_(std::move(block)) {}
  handle(const handle&) noexcept = default;
  handle(handle&& other) noexcept
      : native_(std::exchange(other.native_, nullptr)), block_(std::move(other.block_)) {}
  handle& operator=(const handle&) noexcept = default;
  handle& operator=(handle&& other) noexcept {
    // Sets the new reference before releasing the old one, whose destruction may run callbacks.
    native_ = std::exchange(other.native_, nullptr);
    block_ = std::move(other.block_);
    return *this;
  }
  ~handle() = default;

  /// The C object, for a call that needs one: an empty handle violates the precondition.
  [[nodiscard]] Native* live(
      const char* hint = detail::use_the_other,
      const detail::call_site& call = detail::call_site::current()) const noexcept {
    detail::expect(native_ != nullptr, detail::empty_handle, hint, call);
    return native_;
  }

 private:
  friend struct detail::handle_access;

  Native* native_ = nullptr;
  detail::reference block_;
};

template <class Native>
class shared_handle : public handle<Native> {
 protected:
  using handle<Native>::handle;
};

template <class Native>
class unique_handle : public handle<Native> {
 public:
  unique_handle(const unique_handle&) = delete;
  unique_handle& operator=(const unique_handle&) = delete;

 protected:
  using handle<Native>::handle;
  unique_handle() noexcept = default;
  unique_handle(unique_handle&&) noexcept = default;
  unique_handle& operator=(unique_handle&&) noexcept = default;
  ~unique_handle() = default;
};

namespace detail {

/// Internal access: creates handles and finds their blocks. Every handle type befriends it.
struct handle_access {
  template <class Handle, class... Arguments>
  [[nodiscard]] static Handle make(Arguments&&... arguments) {
    return Handle(std::forward<Arguments>(arguments)...);
  }
  template <class Block, class Native>
  [[nodiscard]] static Block& block(const handle<Native>& of,
                                    const call_site& call = call_site::current()) noexcept {
    expect(static_cast<bool>(of.block_), empty_handle, use_the_other, call);
    return *static_cast<Block*>(of.block_.get());
  }
  /// An error if the object belongs to the parent of this process.
  template <class Native>
  [[nodiscard]] static result<void> check_process(const handle<Native>& of,
                                                  std::string_view operation,
                                                  const call_site& call = call_site::current()) {
    return block<resource>(of, call).check_process(operation);
  }
};

}  // namespace detail

}  // namespace RDMAXX_NAMESPACE
