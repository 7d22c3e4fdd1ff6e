# The addon: marshalling only. cmake-js passes the folders of the headers, which come with npm packages; plain CMake asks Node for them.
if(NOT CMAKE_JS_INC)
  execute_process(COMMAND node -p "[require('node-api-headers').include_dir, require('path').resolve(require('node-addon-api').include_dir)].join(';')"
                  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/..
                  OUTPUT_VARIABLE CMAKE_JS_INC OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()

file(GLOB ADDON_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/addon/*.cpp)
add_library(spillway MODULE ${ADDON_SOURCES})
set_target_properties(spillway PROPERTIES PREFIX "" SUFFIX ".node" CXX_VISIBILITY_PRESET hidden)
target_include_directories(spillway SYSTEM PRIVATE ${CMAKE_JS_INC})
# A worker that is being terminated runs no JavaScript, and takes no exception from a callback that found that out.
target_compile_definitions(spillway PRIVATE NAPI_VERSION=9 NODE_ADDON_API_DISABLE_DEPRECATED NODE_ADDON_API_CPP_EXCEPTIONS
                           NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS)
target_link_libraries(spillway PRIVATE spillway_core ${CMAKE_JS_LIB})
target_link_options(spillway PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
set_target_properties(spillway PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
