# find_package(myops): gives myops_add_op_library(). In a Python package of myops this folder lies
# beside csrc/ (myops.build.get_cmake_dir() names it), in an installed prefix apart from it.
get_filename_component(myops_beside "${CMAKE_CURRENT_LIST_DIR}/../csrc" ABSOLUTE)
get_filename_component(myops_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(EXISTS ${myops_beside}/include/myops/op.h)
  set(MYOPS_INCLUDE_DIR ${myops_beside}/include)
  set(MYOPS_SOURCE_DIR ${myops_beside})
else()
  set(MYOPS_INCLUDE_DIR ${myops_prefix}/include)
  set(MYOPS_SOURCE_DIR ${myops_prefix}/share/myops/src)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/myops_add_op_library.cmake)
