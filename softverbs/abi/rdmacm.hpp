// Which connection manager this process uses.
#pragma once

namespace softverbs::abi {

/// Settled at the first call.
[[nodiscard]] bool uses_soft_cm();

}  // namespace softverbs::abi
