#include <base/c_function.hpp>

#include <exception>
#include <system_error>

namespace softverbs {

int errno_of_exception() noexcept {
  try {
    throw;
  } catch (const std::system_error& failure) {
    return failure.code().value() != 0 ? failure.code().value() : ENOMEM;
  } catch (...) {
    return ENOMEM;
  }
}

}  // namespace softverbs
