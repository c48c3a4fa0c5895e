# Installs headers, libraries, the CMake package, the pkg-config files, the licence and the documents.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rdmaxx")
get_property(RDMAXX_COMPONENTS GLOBAL PROPERTY RDMAXX_COMPONENTS)
get_property(RDMAXX_COMPONENTS_ON_REQUEST GLOBAL PROPERTY RDMAXX_COMPONENTS_ON_REQUEST)

install(DIRECTORY include/rdmaxx DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")

foreach(component IN LISTS RDMAXX_COMPONENTS RDMAXX_COMPONENTS_ON_REQUEST)
  get_property(target GLOBAL PROPERTY RDMAXX_TARGET_OF_${component})
  get_property(headers GLOBAL PROPERTY RDMAXX_HEADERS_OF_${component})
  if(headers)
    install(DIRECTORY "${headers}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  install(TARGETS ${target} EXPORT rdmaxx-${component}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT rdmaxx-${component}
    NAMESPACE rdmaxx::
    FILE rdmaxx-${component}-targets.cmake
    DESTINATION "${package_dir}")

  get_property(loading GLOBAL PROPERTY RDMAXX_LOADING_OF_${component})
  set(component_file "${PROJECT_BINARY_DIR}/package/rdmaxx-${component}.cmake")
  file(CONFIGURE OUTPUT "${component_file}" @ONLY CONTENT
    "@loading@include(\"\${CMAKE_CURRENT_LIST_DIR}/rdmaxx-@component@-targets.cmake\")\n")
  install(FILES "${component_file}" DESTINATION "${package_dir}")
endforeach()

configure_package_config_file(cmake/rdmaxx-config.cmake.in
  "${PROJECT_BINARY_DIR}/package/rdmaxx-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/rdmaxx-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/package/rdmaxx-config.cmake"
    "${PROJECT_BINARY_DIR}/package/rdmaxx-config-version.cmake"
    cmake/FindRdmaCore.cmake
  DESTINATION "${package_dir}")

# A static library is listed before the libraries it needs.
get_property(libraries GLOBAL PROPERTY RDMAXX_LIBRARIES)
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND "-l")
list(JOIN libraries " " RDMAXX_PKG_CONFIG_LIBS)
get_property(modules GLOBAL PROPERTY RDMAXX_PKG_CONFIG)
list(REMOVE_DUPLICATES modules)
list(JOIN modules ", " RDMAXX_PKG_CONFIG_REQUIRES)
configure_file(cmake/rdmaxx.pc.in "${PROJECT_BINARY_DIR}/package/rdmaxx.pc" @ONLY)
set(pkg_config_files "${PROJECT_BINARY_DIR}/package/rdmaxx.pc")
if(TARGET softverbs)
  configure_file(cmake/softverbs.pc.in "${PROJECT_BINARY_DIR}/package/softverbs.pc" @ONLY)
  list(APPEND pkg_config_files "${PROJECT_BINARY_DIR}/package/softverbs.pc")
endif()
install(FILES ${pkg_config_files} DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(FILES LICENSE README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples"
  FILES_MATCHING PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.sh")
