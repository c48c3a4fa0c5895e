#pragma once

// conversation_handle: what streams and halves hold. The last one ends the conversation; the
// straggler service, which may hold it for a moment, does not.

#include <memory>
#include <new>
#include <utility>

#include "stream/conversation.hpp"

namespace rdmaxx::inline v0::detail {

class conversation_handle {
 public:
  explicit conversation_handle(std::shared_ptr<conversation> whose) : whose_(std::move(whose)) {}
  conversation_handle(const conversation_handle&) = delete;
  conversation_handle& operator=(const conversation_handle&) = delete;
  ~conversation_handle() {
    if (!whose_->is_made_before_fork()) {
      whose_->linger();
    } else {
      // Left as it is: threads of the parent may hold its lock or wait for it.
      static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(whose_)));
    }
  }

  [[nodiscard]] conversation& operator*() const noexcept { return *whose_; }
  [[nodiscard]] conversation* operator->() const noexcept { return whose_.get(); }

 private:
  std::shared_ptr<conversation> whose_;
};

}  // namespace rdmaxx::inline v0::detail
