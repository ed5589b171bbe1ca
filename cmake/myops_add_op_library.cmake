# Rules for our own libraries and those of other projects: for CMake what python/myops/build.py is for
# Python packages.

set(MYOPS_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})

# The flags that the builds for all runtimes must share, so that their results are bit-identical.
function(myops_compile_options target)
  target_compile_options(${target} PRIVATE -O3 -falign-functions=64 -ffp-contract=off -Wall -Wextra)
  if(MYOPS_OPTIMIZATION) # another one, for tests of our own
    target_compile_options(${target} PRIVATE ${MYOPS_OPTIMIZATION})
  endif()
  if(MYOPS_SANITIZE) # the code as it is written, and seconds instead of minutes to compile
    # -w: what a sanitizer adds makes warnings slow and wrong; the other builds have them.
    target_compile_options(${target} PRIVATE -O1 -g1 -w -fno-omit-frame-pointer
                                             -fsanitize=${MYOPS_SANITIZE}
                                             -fno-sanitize-recover=all)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET
                                             hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Exports RegisterCustomOps, for ONNX Runtime, and the recording of calls; hides all other symbols.
function(myops_hide_symbols target)
  set(map ${MYOPS_CMAKE_DIR}/ort_exports.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

# myops_add_op_library(my_ops DOMAIN my_domain SOURCES a.cpp b.cpp)
#
# A custom-op library for ONNX Runtime from op descriptions (MYOPS_OP) in the given sources. Needs
# find_package(myops); the result is a self-contained shared object.
function(myops_add_op_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DOMAIN" "SOURCES")
  if(NOT arg_DOMAIN OR NOT arg_SOURCES)
    message(FATAL_ERROR "myops_add_op_library(${target}): give DOMAIN and SOURCES")
  endif()
  file(GLOB adapter CONFIGURE_DEPENDS ${MYOPS_SOURCE_DIR}/core/*.cpp
       ${MYOPS_SOURCE_DIR}/cuda/*.cpp ${MYOPS_SOURCE_DIR}/adapters/ort/*.cpp)
  add_library(${target} MODULE ${arg_SOURCES} ${adapter})
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE ${MYOPS_INCLUDE_DIR})
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  target_compile_definitions(${target} PRIVATE MYOPS_DOMAIN="${arg_DOMAIN}")
  myops_compile_options(${target})
  myops_hide_symbols(${target})
endfunction()
