# The native tests, and what only they use. In: spillway_core, ON_DEMAND. Out: the target `check`, a program for each file of
# this folder, the imitated device and the failing file layer (which the TypeScript tests load too: they lie beside the addon), the fuzzer.
set(TESTS ${CMAKE_CURRENT_LIST_DIR})
set(CHECKOUT ${TESTS}/../..)
# Of all targets of this file: test code runs for a second and compiles for minutes. The kernels under test are the addon's own objects.
# All are position-independent alike, since they share a precompiled header.
set(TEST_OPTIONS -O1 -fPIC)

# A device plugin for tests, beside the addon: what the runtime does with an asynchronous device, without one.
# Its kernels are the cuda device's own, compiled for the host.
add_library(spillway_own_kernels STATIC ${TESTS}/imitation/kernels.cpp)
target_link_libraries(spillway_own_kernels PUBLIC spillway_core)
target_compile_options(spillway_own_kernels PRIVATE ${TEST_OPTIONS})
target_include_directories(spillway_own_kernels PUBLIC ${CHECKOUT})
add_library(spillway_imitation MODULE ${TESTS}/imitation/imitation.cpp ${TESTS}/imitation/lanes.cpp)
set_target_properties(spillway_imitation PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden)
target_link_libraries(spillway_imitation PRIVATE spillway_own_kernels)
target_link_options(spillway_imitation PRIVATE -Wl,--exclude-libs,ALL)

# The cuda device itself, on a CUDA that is imitated: where the headers of CUDA, cuDNN and cuBLAS are (scripts/cuda/toolkit.js).
set(CUDA_HEADERS "const i = require('${CHECKOUT}/scripts/cuda/toolkit').includes(); [i.cuda, i.cudnn, i.cublas].filter(Boolean).join(';')")
execute_process(COMMAND node -p "${CUDA_HEADERS}" OUTPUT_VARIABLE SPILLWAY_CUDA_HEADERS OUTPUT_STRIP_TRAILING_WHITESPACE)
list(LENGTH SPILLWAY_CUDA_HEADERS CUDA_HEADERS)
if(CUDA_HEADERS EQUAL 3)
  set(SPILLWAY_CUDA_SOURCE ${CHECKOUT}/native/cuda CACHE PATH "The cuda device's sources, in which a test may have planted a fault")
  file(GLOB HOST_CUDA CONFIGURE_DEPENDS ${TESTS}/host_cuda/*.cpp)
  file(GLOB CUDA_PLUGIN CONFIGURE_DEPENDS ${SPILLWAY_CUDA_SOURCE}/*.cpp ${SPILLWAY_CUDA_SOURCE}/*.cu)
  spillway_join(HOST_CUDA host_cuda)
  spillway_join(CUDA_PLUGIN cuda)
  set_source_files_properties(${SPILLWAY_CUDA_SOURCE}/own_kernels.cu PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  set_source_files_properties(${CUDA_PLUGIN} PROPERTIES COMPILE_DEFINITIONS "dlopen=spillway_host_dlopen;dlsym=spillway_host_dlsym")
  if(SPILLWAY_SANITIZE STREQUAL "thread")  # arithmetic runs under one lock; copies, which threads could race with, are watched
    set_property(SOURCE ${SPILLWAY_CUDA_SOURCE}/own_kernels.cu ${TESTS}/host_cuda/cudnn.cpp ${TESTS}/host_cuda/cublaslt.cpp APPEND PROPERTY COMPILE_OPTIONS "-fno-sanitize=thread")
  endif()
  add_library(spillway_host_cuda MODULE EXCLUDE_FROM_ALL ${HOST_CUDA} ${CUDA_PLUGIN})
  set_target_properties(spillway_host_cuda PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden)
  target_include_directories(spillway_host_cuda BEFORE PRIVATE ${TESTS}/host_cuda/shim ${SPILLWAY_CUDA_SOURCE}/.. ${CHECKOUT})
  target_include_directories(spillway_host_cuda SYSTEM PRIVATE ${SPILLWAY_CUDA_HEADERS})
  target_compile_options(spillway_host_cuda PRIVATE ${TEST_OPTIONS} ${SPILLWAY_HOST_CUDA_OPTIONS})
  target_link_libraries(spillway_host_cuda PRIVATE spillway_core ${CMAKE_DL_LIBS})
  target_link_options(spillway_host_cuda PRIVATE -Wl,--exclude-libs,ALL ${SPILLWAY_HOST_CUDA_OPTIONS})
  # What cuDNN itself wants of a driver to name engines (host_cuda/asked.hpp).
  add_library(spillway_driver_stub SHARED EXCLUDE_FROM_ALL ${TESTS}/host_cuda/driver/stub.cpp)
  set_target_properties(spillway_driver_stub PROPERTIES PREFIX "" NO_SONAME ON)
  target_link_options(spillway_driver_stub PRIVATE -Wl,-soname,libcuda.so.1)
  add_dependencies(spillway_host_cuda spillway_driver_stub)
  # What a step launches, counted (bench/launches.ts).
  add_executable(cuda_launches EXCLUDE_FROM_ALL ${TESTS}/host_cuda/launches/launches.cpp)
  target_link_libraries(cuda_launches PRIVATE spillway_core ${CMAKE_DL_LIBS})
  target_compile_definitions(cuda_launches PRIVATE SPILLWAY_HOST_CUDA="$<TARGET_FILE:spillway_host_cuda>")
  add_dependencies(cuda_launches spillway_host_cuda)
endif()

add_executable(fuzz_tape ${ON_DEMAND} ${TESTS}/fuzz/fuzz_tape.cpp)
target_link_libraries(fuzz_tape PRIVATE spillway_core)
target_include_directories(fuzz_tape PRIVATE ${CHECKOUT})

# Of the random cases of the kernels' tests.
set(SPILLWAY_ONE_CASE_IN 1)
if(SPILLWAY_SANITIZE)
  set(SPILLWAY_ONE_CASE_IN 5)
endif()

# The random cases of the kernels' tests are compiled once, for all of their programs.
file(GLOB SPILLWAY_CASES CONFIGURE_DEPENDS ${TESTS}/kernels/*.cpp)
spillway_join(SPILLWAY_CASES cases)
add_library(spillway_cases OBJECT ${ON_DEMAND} ${SPILLWAY_CASES})
target_link_libraries(spillway_cases PUBLIC spillway_own_kernels)
target_compile_definitions(spillway_cases PRIVATE SPILLWAY_ONE_CASE_IN=${SPILLWAY_ONE_CASE_IN})
target_compile_options(spillway_cases PRIVATE ${TEST_OPTIONS})
# The headers that most programs share are compiled once, too.
target_precompile_headers(spillway_cases PRIVATE ${TESTS}/shared.hpp)

# Each file of this folder is a program that ends with `N passed, 0 failed` and exits with 1 when one failed.
add_custom_target(check)
file(GLOB SPILLWAY_TESTS CONFIGURE_DEPENDS ${TESTS}/*.cpp)
foreach(source ${SPILLWAY_TESTS})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${ON_DEMAND} ${source})
  target_link_libraries(${name} PRIVATE spillway_own_kernels)
  target_compile_options(${name} PRIVATE ${TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM spillway_cases)
  if(name MATCHES "^kernels_")
    target_link_libraries(${name} PRIVATE spillway_cases)
  endif()
  target_compile_definitions(${name} PRIVATE SPILLWAY_IMITATION="$<TARGET_FILE:spillway_imitation>" SPILLWAY_ONE_CASE_IN=${SPILLWAY_ONE_CASE_IN})
  add_dependencies(${name} spillway_imitation)
  if(name STREQUAL "mpi_test")
    target_compile_definitions(${name} PRIVATE SPILLWAY_CHECKOUT="${CHECKOUT}")
  endif()
  if(name MATCHES "host_cuda" AND TARGET spillway_host_cuda)
    target_compile_definitions(${name} PRIVATE SPILLWAY_HOST_CUDA="$<TARGET_FILE:spillway_host_cuda>")
    add_dependencies(${name} spillway_host_cuda kernels_cuda)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_custom_target(run_${name} COMMAND ${CMAKE_BINARY_DIR}/tests/${name} DEPENDS ${name})
  add_dependencies(check run_${name})
endforeach()
