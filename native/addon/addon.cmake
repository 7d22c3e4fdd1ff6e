# The addon: marshalling only. Headers come with the npm packages, so nothing is downloaded.
execute_process(COMMAND node -p "require('node-addon-api').include_dir" WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/..
                OUTPUT_VARIABLE ADDON_API_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND node -p "require('node-api-headers').include_dir" WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/..
                OUTPUT_VARIABLE NODE_API_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(ADDON_API_DIR "${ADDON_API_DIR}" ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/..)
get_filename_component(NODE_API_DIR "${NODE_API_DIR}" ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/..)

file(GLOB ADDON_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/addon/*.cpp)
add_library(spillway MODULE ${ADDON_SOURCES})
set_target_properties(spillway PROPERTIES PREFIX "" SUFFIX ".node" CXX_VISIBILITY_PRESET hidden)
target_include_directories(spillway SYSTEM PRIVATE ${NODE_API_DIR} ${ADDON_API_DIR})
# A worker that is being terminated runs no JavaScript, and takes no exception from a callback that found that out.
target_compile_definitions(spillway PRIVATE NAPI_VERSION=9 NODE_ADDON_API_DISABLE_DEPRECATED NODE_ADDON_API_CPP_EXCEPTIONS
                           NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS)
target_link_libraries(spillway PRIVATE spillway_core)
target_link_options(spillway PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
set_target_properties(spillway PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
