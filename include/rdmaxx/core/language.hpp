#pragma once

// language: rdmaxx is C++23, as GCC 12 and Clang 19 implement it.

/// Below the published value, because GCC 12 announces its C++23 with this one.
#define RDMAXX_NEEDS_CPLUSPLUS 202100L

#if __cplusplus < RDMAXX_NEEDS_CPLUSPLUS
#error "rdmaxx needs C++23: compile with -std=c++23, or target_compile_features(… cxx_std_23)"
#endif
