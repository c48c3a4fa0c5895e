# Compiles through ccache where it is installed. The sloppiness is what ccache asks for in order to
# cache compilations that use a precompiled header. Paths below the source tree are made relative,
# so that two clones on one machine share what they compiled.

find_program(RDMAXX_CCACHE ccache)
mark_as_advanced(RDMAXX_CCACHE)

if(PROJECT_IS_TOP_LEVEL AND RDMAXX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "${RDMAXX_CCACHE}")
endif()
