# The warnings of our own build. They are directory options, and only there when this is the top-level
# project: whoever uses rdmaxx neither inherits nor sees them.

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

# On in our presets: a newer compiler of somebody else may know more warnings.
option(RDMAXX_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)

add_compile_options(
  -Wall
  -Wextra
  -Wpedantic
  -Wcast-align
  -Wconversion
  -Wdouble-promotion
  -Wextra-semi
  -Wformat=2
  -Wimplicit-fallthrough
  -Wnon-virtual-dtor
  -Wold-style-cast
  -Woverloaded-virtual
  -Wshadow
  -Wsign-conversion
  -Wundef
  -Wunused)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wduplicated-branches -Wduplicated-cond)
endif()

if(RDMAXX_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()
