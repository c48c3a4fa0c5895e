# Finds the C libraries of rdma-core: components `ibverbs`, `rdmacm` and `mlx5`, as the targets
# `RdmaCore::<component>`. Installed beside the package configuration, for consumers.

include(FindPackageHandleStandardArgs)

set(_rdmacore_header_ibverbs infiniband/verbs.h)
set(_rdmacore_header_rdmacm rdma/rdma_cma.h)
set(_rdmacore_header_mlx5 infiniband/mlx5dv.h)

set(_rdmacore_results "")
foreach(_component IN LISTS RdmaCore_FIND_COMPONENTS)
  find_path(RdmaCore_${_component}_INCLUDE_DIR ${_rdmacore_header_${_component}})
  find_library(RdmaCore_${_component}_LIBRARY ${_component})
  mark_as_advanced(RdmaCore_${_component}_INCLUDE_DIR RdmaCore_${_component}_LIBRARY)
  if(RdmaCore_${_component}_INCLUDE_DIR AND RdmaCore_${_component}_LIBRARY)
    set(RdmaCore_${_component}_FOUND TRUE)
  endif()
  list(APPEND _rdmacore_results
    RdmaCore_${_component}_LIBRARY RdmaCore_${_component}_INCLUDE_DIR)
endforeach()

find_package_handle_standard_args(RdmaCore
  REQUIRED_VARS ${_rdmacore_results}
  HANDLE_COMPONENTS)

foreach(_component IN LISTS RdmaCore_FIND_COMPONENTS)
  if(RdmaCore_${_component}_FOUND AND NOT TARGET RdmaCore::${_component})
    add_library(RdmaCore::${_component} UNKNOWN IMPORTED)
    set_target_properties(RdmaCore::${_component} PROPERTIES
      IMPORTED_LOCATION "${RdmaCore_${_component}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${RdmaCore_${_component}_INCLUDE_DIR}")
  endif()
endforeach()

# librdmacm and libmlx5 are used together with libibverbs, never without it.
foreach(_component rdmacm mlx5)
  if(TARGET RdmaCore::${_component} AND TARGET RdmaCore::ibverbs)
    set_property(TARGET RdmaCore::${_component}
      PROPERTY INTERFACE_LINK_LIBRARIES RdmaCore::ibverbs)
  endif()
endforeach()

unset(_rdmacore_header_ibverbs)
unset(_rdmacore_header_rdmacm)
unset(_rdmacore_header_mlx5)
unset(_rdmacore_results)
unset(_component)
