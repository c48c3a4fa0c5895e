# Components are the parts of the library that a program chooses between: each one is a target
# `rdmaxx::<name>` with its own dependencies, and can be asked for in
# `find_package(rdmaxx COMPONENTS …)`.
#
#   rdmaxx_add_component(<name>
#     LAYERS <layer>…        folders of src/ whose sources it compiles
#     REQUIRES <component>…  components it builds on, added before it
#     PACKAGES "<words>"…    what find_package needs to be told, here and in a consumer
#     LINKS <target>…        what those packages provide, passed on to whoever links it
#     PKG_CONFIG <module>…)  the same dependencies by their pkg-config names
#
# A component without sources is header-only.
#
#   rdmaxx_add_component_on_request(<name> TARGET <target> HEADERS <folder>/)
#
# A library with its own build that is installed as a component, but not part of `rdmaxx::rdmaxx`: a
# program gets it only if it names it.

set_property(GLOBAL PROPERTY RDMAXX_COMPONENTS "")
set_property(GLOBAL PROPERTY RDMAXX_COMPONENTS_ON_REQUEST "")

function(rdmaxx_add_component name)
  cmake_parse_arguments(PARSE_ARGV 1 component "" "" "LAYERS;REQUIRES;PACKAGES;LINKS;PKG_CONFIG")
  set(target rdmaxx_${name})

  set(sources "")
  foreach(layer IN LISTS component_LAYERS)
    file(GLOB_RECURSE layer_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.cpp")
    list(APPEND sources ${layer_sources})
  endforeach()

  if(sources)
    add_library(${target} ${sources})
    set(usage PUBLIC)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    set_target_properties(${target} PROPERTIES
      DEFINE_SYMBOL "" # so that static and shared objects come from the same compiler command
      POSITION_INDEPENDENT_CODE ON
      INSTALL_RPATH "$ORIGIN" # the components find each other in any prefix
      VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    set_property(GLOBAL APPEND PROPERTY RDMAXX_LIBRARIES ${target})
  else()
    add_library(${target} INTERFACE)
    set(usage INTERFACE)
  endif()
  add_library(rdmaxx::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})

  target_compile_features(${target} ${usage} cxx_std_23)
  target_include_directories(${target} ${usage}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  set(loading "")
  foreach(required IN LISTS component_REQUIRES)
    target_link_libraries(${target} ${usage} rdmaxx_${required})
    string(APPEND loading "rdmaxx_load_component(${required})\n")
  endforeach()
  foreach(package IN LISTS component_PACKAGES)
    separate_arguments(words UNIX_COMMAND "${package}")
    find_package(${words} REQUIRED)
    string(APPEND loading "find_dependency(${package})\n")
  endforeach()
  target_link_libraries(${target} ${usage} ${component_LINKS})

  set_property(GLOBAL APPEND PROPERTY RDMAXX_COMPONENTS ${name})
  set_property(GLOBAL PROPERTY RDMAXX_TARGET_OF_${name} ${target})
  set_property(GLOBAL APPEND PROPERTY RDMAXX_PKG_CONFIG ${component_PKG_CONFIG})
  set_property(GLOBAL PROPERTY RDMAXX_LOADING_OF_${name} "${loading}")
endfunction()

function(rdmaxx_add_component_on_request name)
  cmake_parse_arguments(PARSE_ARGV 1 component "" "TARGET;HEADERS" "")
  set_target_properties(${component_TARGET} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY RDMAXX_COMPONENTS_ON_REQUEST ${name})
  set_property(GLOBAL PROPERTY RDMAXX_TARGET_OF_${name} ${component_TARGET})
  set_property(GLOBAL PROPERTY RDMAXX_HEADERS_OF_${name} "${component_HEADERS}")
endfunction()

# `rdmaxx::rdmaxx`: everything that was built, except what has to be asked for.
function(rdmaxx_add_umbrella)
  add_library(rdmaxx_all INTERFACE)
  add_library(rdmaxx::rdmaxx ALIAS rdmaxx_all)
  get_property(components GLOBAL PROPERTY RDMAXX_COMPONENTS)
  foreach(component IN LISTS components)
    target_link_libraries(rdmaxx_all INTERFACE rdmaxx_${component})
  endforeach()
endfunction()
