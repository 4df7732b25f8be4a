# kpx_build_id(): a hash over everything that goes into the archive, computed in
# every build, so that a binary can tell which archive it was linked with. This
# file is also the script that computes the hash.

if(CMAKE_SCRIPT_MODE_FILE)
    file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/csrc/*.cpp ${SOURCE}/csrc/*.hpp ${SOURCE}/csrc/*.h
        ${SOURCE}/csrc/*.def ${SOURCE}/shaders/* ${SOURCE}/cmake/*)
    list(FILTER files EXCLUDE REGEX "^csrc/tests/")
    list(APPEND files CMakeLists.txt)
    list(SORT files)
    set(all "${SETTINGS}\n")
    foreach(file IN LISTS files)
        file(SHA256 ${SOURCE}/${file} hash)
        string(APPEND all "${file} ${hash}\n")
    endforeach()
    string(SHA256 id "${all}")
    set(content "#define KPX_BUILD_ID \"${id}\"\n")
    set(old "")
    if(EXISTS ${OUTPUT})
        file(READ ${OUTPUT} old)
    endif()
    if(NOT old STREQUAL content)
        file(WRITE ${OUTPUT} "${content}")
    endif()
    return()
endif()

add_custom_target(kpx_build_id
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PROJECT_BINARY_DIR}/generated/build_id.h
            "-DSETTINGS=kompute ${KOMPUTE_SHA256} ${KOMPUTE_SOURCE} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${KOMPUTE_GO_SANITIZE} without ${KPX_LEFT_OUT} with ${KPX_EXTRA_LIBS}"
            -P ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
    BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/build_id.h
    COMMENT "" VERBATIM)
