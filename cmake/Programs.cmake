# rdmaxx_add_program(<target> [DIRECTORY <dir>] SOURCES <file>… [LINKS <target>…])
#
# A program of this repository, linked with the whole library and placed in build/<preset>/<dir>.
# Without sources the target does nothing.
function(rdmaxx_add_program target)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "DIRECTORY" "SOURCES;LINKS")
  if(NOT program_SOURCES)
    add_custom_target(${target})
    return()
  endif()
  add_executable(${target} ${program_SOURCES})
  target_link_libraries(${target} PRIVATE rdmaxx::rdmaxx ${program_LINKS})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${program_DIRECTORY}")
endfunction()

# rdmaxx_add_programs(<dir> [LINKS <target>…])
#
# One program for each source file in <dir>, named after the file; the target <dir> builds them all.
function(rdmaxx_add_programs directory)
  cmake_parse_arguments(PARSE_ARGV 1 programs "" "" "LINKS")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${directory}/*.cpp")
  add_custom_target(${directory})
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    rdmaxx_add_program(${name} DIRECTORY ${directory} SOURCES "${source}" LINKS ${programs_LINKS})
    add_dependencies(${directory} ${name})
  endforeach()
endfunction()
