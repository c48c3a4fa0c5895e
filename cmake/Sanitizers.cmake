# RDMAXX_SANITIZE is a list for -fsanitize=, such as "address,undefined" or "thread". Every finding
# ends the program: a test cannot pass over one.

set(RDMAXX_SANITIZE "" CACHE STRING "Sanitizers for our own build, as in -fsanitize=")

if(RDMAXX_SANITIZE)
  add_compile_options(
    -fsanitize=${RDMAXX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RDMAXX_SANITIZE})
endif()
