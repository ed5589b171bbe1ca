# find_package(myops): gives myops_add_op_library().
get_filename_component(myops_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(MYOPS_INCLUDE_DIR ${myops_prefix}/include)
set(MYOPS_SOURCE_DIR ${myops_prefix}/share/myops/src)
include(${CMAKE_CURRENT_LIST_DIR}/myops_add_op_library.cmake)
