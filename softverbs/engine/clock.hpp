// The clock of softverbs, under the name by which the engine and what stands on it know it.
#pragma once

#include <base/clock.hpp>

namespace softverbs::engine {

using softverbs::clock;
using softverbs::never;
using softverbs::time_point;

}  // namespace softverbs::engine
