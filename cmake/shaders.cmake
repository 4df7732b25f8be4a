# Compiles every shaders/*.comp to SPIR-V, in its variants, and embeds the results
# with a table of them. A change to an include recompiles the shaders that use it;
# a shader that does not compile fails the build. Variants that need a GLSL
# extension unknown to glslc are compiled by a newer glslang (glslang.cmake);
# where that is not available, they are left out with a message.
#
# Comments at the top of a shader declare what differs from the default:
#   // variants: names made of the words below, the best first; the default is "narrow base"
#   // requires: features that every variant needs
#   // kernel: NAME DEFINE=VALUE…  a kernel to build from the file, one line for each; the default is one of the file's name
# A variant's name consists of these words; each adds features and definitions.
set(KPX_VARIANT_base "")
set(KPX_VARIANT_narrow storage16 -DNARROW)           # 8- and 16-bit elements are real types
set(KPX_VARIANT_subgroup subgroup -DSUBGROUP)        # lanes add up by subgroup operations
set(KPX_VARIANT_rolled small_code -DROLLED)          # loops are not unrolled, for compilers that take minutes for that
set(KPX_VARIANT_dot8 dot8 glsl:GL_EXT_spirv_intrinsics -DDOT8) # dot products of four bytes
set(KPX_VARIANT_khr memory_model coopmat_khr glsl:GL_KHR_cooperative_matrix -DCOOPMAT_KHR)
set(KPX_VARIANT_khr8 memory_model int8 coopmat8_khr glsl:GL_KHR_cooperative_matrix -DCOOPMAT_KHR) # of bytes
set(KPX_VARIANT_nv2 coopmat2_nv glsl:GL_NV_cooperative_matrix2) # matrices stay in registers
set(KPX_VARIANT_nv coopmat_nv glsl:GL_NV_cooperative_matrix)

# The SPIR-V version that the newer compiler targets, which the extension determines, as a Vulkan version.
set(KPX_TARGET_GL_KHR_cooperative_matrix vulkan1.2)
set(KPX_TARGET_GL_NV_cooperative_matrix2 vulkan1.3)
set(KPX_TARGET_GL_EXT_spirv_intrinsics vulkan1.2)

include(kernel_spec)
include(glslang)

find_program(GLSLC glslc)
if(NOT GLSLC)
    message(FATAL_ERROR "The GLSL compiler is missing: install glslc.")
endif()

set(KPX_SHADERS ${PROJECT_SOURCE_DIR}/shaders)
set(KPX_GENERATED ${PROJECT_BINARY_DIR}/generated)
set(KPX_SPIRV ${KPX_GENERATED}/spirv)
file(MAKE_DIRECTORY ${KPX_SPIRV})
file(GLOB KPX_SHADER_FILES CONFIGURE_DEPENDS ${KPX_SHADERS}/*.comp)
file(GLOB KPX_SHADER_INCLUDES CONFIGURE_DEPENDS ${KPX_SHADERS}/include/*.glsl)
file(GLOB KPX_SHADER_HEADERS CONFIGURE_DEPENDS ${KPX_SHADERS}/include/*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${KPX_SHADER_FILES} ${KPX_SHADER_INCLUDES})

# Whether glslc supports the GLSL extension. Probed once per extension and compiler.
function(kpx_probe_glsl extension out)
    set(cache KPX_GLSL_${extension})
    if(NOT DEFINED ${cache})
        set(probe ${KPX_GENERATED}/probe.comp)
        file(WRITE ${probe} "#version 450\n#extension ${extension} : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n")
        execute_process(COMMAND ${GLSLC} --target-env=vulkan1.2 -o ${probe}.spv ${probe}
            RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        if(failed)
            set(${cache} OFF CACHE INTERNAL "")
        else()
            set(${cache} ON CACHE INTERNAL "")
        endif()
    endif()
    set(${out} ${${cache}} PARENT_SCOPE)
endfunction()

# What a variant stands for: its features ("a,b,"), definitions, and an extension that the compiler lacks.
function(kpx_variant variant requires out_features out_defines out_missing)
    set(tokens ${requires})
    string(REPLACE "_" ";" words ${variant})
    foreach(word IN LISTS words)
        if(NOT DEFINED KPX_VARIANT_${word})
            message(FATAL_ERROR "There is no variant '${word}': cmake/shaders.cmake lists what there is.")
        endif()
        list(APPEND tokens ${KPX_VARIANT_${word}})
    endforeach()
    set(features "")
    set(defines "")
    set(missing "")
    list(REMOVE_DUPLICATES tokens)
    foreach(token IN LISTS tokens)
        if(token MATCHES "^glsl:(.+)$")
            set(extension ${CMAKE_MATCH_1})
            kpx_probe_glsl(${extension} known)
            if(NOT known)
                set(missing ${extension})
            endif()
        elseif(token MATCHES "^-D")
            list(APPEND defines ${token})
        else()
            string(APPEND features "${token},")
        endif()
    endforeach()
    set(${out_features} "${features}" PARENT_SCOPE)
    set(${out_defines} "${defines}" PARENT_SCOPE)
    set(${out_missing} "${missing}" PARENT_SCOPE)
endfunction()

# Reads the comments at the top of a shader.
function(kpx_shader_head source out_variants out_requires out_kernels)
    get_filename_component(name ${source} NAME_WE)
    set(variants narrow base)
    set(requires "")
    set(kernels "")
    file(STRINGS ${source} lines ENCODING UTF-8 REGEX "^// (variants|requires|kernel): ")
    foreach(line IN LISTS lines)
        string(REGEX MATCH "^// ([a-z]+): (.*)$" matched "${line}")
        set(key ${CMAKE_MATCH_1})
        if(key STREQUAL "kernel")
            list(APPEND kernels "${CMAKE_MATCH_2}")
        else()
            separate_arguments(words UNIX_COMMAND "${CMAKE_MATCH_2}")
            set(${key} ${words})
        endif()
    endforeach()
    if(NOT kernels)
        set(kernels ${name})
    endif()
    set(${out_variants} "${variants}" PARENT_SCOPE)
    set(${out_requires} "${requires}" PARENT_SCOPE)
    set(${out_kernels} "${kernels}" PARENT_SCOPE)
endfunction()

set(blobs "")
set(table "")
set(outputs "")
set(specs "")
set(KPX_LEFT_OUT "") # names of variants that are not in the archive
foreach(source IN LISTS KPX_SHADER_FILES)
    kpx_shader_head(${source} variants requires kernels)
    set(names "")
    foreach(kernel IN LISTS kernels)
        separate_arguments(definitions UNIX_COMMAND "${kernel}")
        list(POP_FRONT definitions kernel)
        list(TRANSFORM definitions PREPEND -D)
        list(APPEND names ${kernel})
        foreach(variant IN LISTS variants)
            set(name ${kernel}.${variant})
            kpx_variant(${variant} "${requires}" features defines missing)
            set(output ${KPX_SPIRV}/${name}.spv)
            string(MAKE_C_IDENTIFIER "spirv_${name}" symbol)
            set(compiler ${GLSLC})
            if(missing AND NOT KOMPUTE_GO_PLAIN)
                kpx_glslang(compiler)
            endif()
            if(NOT compiler)
                message(STATUS "kernel ${name}: left out, ${GLSLC} does not know ${missing}")
                list(APPEND KPX_LEFT_OUT ${name})
                continue()
            elseif(missing)
                set(command ${compiler} --quiet --target-env ${KPX_TARGET_${missing}} ${defines} ${definitions} -I${KPX_SHADERS}/include
                    --depfile ${output}.d -o ${output} ${source})
            else()
                set(optimize -O)
                if(narrow_${variant} IN_LIST variants OR (variant STREQUAL base AND narrow IN_LIST variants))
                    set(optimize -O0) # only for devices that are slow anyway; it saves a sixth of the build
                endif()
                set(command ${GLSLC} --target-env=vulkan1.2 ${optimize} -Werror ${defines} ${definitions}
                    -I${KPX_SHADERS}/include -MD -MF ${output}.d -MT ${output} -o ${output} ${source})
            endif()
            string(APPEND blobs "KPX_EMBED(${symbol}, \"${output}\")\n")
            # Neither compiler escapes spaces in what it writes about includes: ninja would read other names, find no such
            # files, and compile in every build. So every shader depends on all includes there.
            set(included DEPFILE ${output}.d)
            if("${KPX_SHADERS}${KPX_SPIRV}" MATCHES " ")
                set(included DEPENDS ${KPX_SHADER_INCLUDES} ${KPX_SHADER_HEADERS})
            endif()
            add_custom_command(OUTPUT ${output}
                COMMAND ${command}
                DEPENDS ${source} ${compiler}
                ${included}
                COMMENT "Compiling shader generated/spirv/${name}.spv" VERBATIM)
            string(APPEND table "    {\"${kernel}\", \"${variant}\", \"${features}\", ${symbol}, ${symbol}_end},\n")
            list(APPEND outputs ${output})
        endforeach()
    endforeach()
    kpx_spec_struct(${source} "${names}" struct)
    string(APPEND specs "\n${struct}")
endforeach()

file(CONFIGURE OUTPUT ${KPX_GENERATED}/gen_kernels.hpp CONTENT
"// Made by cmake/kernel_spec.cmake from shaders/*.comp: what a pipeline of each kernel is specialized by, and binds.
#pragma once

#include <cstdint>

#include \"ops/op.hpp\"

namespace kpx::spec {
@specs@
} // namespace kpx::spec
" @ONLY)

file(CONFIGURE OUTPUT ${KPX_GENERATED}/gen_kernels.cpp CONTENT
"// Made by cmake/shaders.cmake from shaders/*.comp. The assembler takes in the files as they are.
#include \"runtime/embedded.hpp\"

#define KPX_EMBED(name, file)                                                                                       \\
    extern \"C\" __attribute__((visibility(\"hidden\"))) const uint32_t name[], name##_end[];                           \\
    asm(\".pushsection .rodata\\n.balign 4\\n\" #name \":\\n.incbin \\\"\" file \"\\\"\\n\" #name \"_end:\\n.popsection\");
@blobs@
namespace kpx {
const EmbeddedKernel embedded_kernels[] = {
@table@};
const uint32_t embedded_kernel_count = sizeof embedded_kernels / sizeof embedded_kernels[0];
} // namespace kpx
" @ONLY)
# A sanitized build embeds the same kernels, which are data.
if(KOMPUTE_GO_PLAIN)
    add_library(kpx_kernels OBJECT IMPORTED)
    set_target_properties(kpx_kernels PROPERTIES
        IMPORTED_OBJECTS ${KOMPUTE_GO_PLAIN}/CMakeFiles/kpx_kernels.dir/generated/gen_kernels.cpp.o)
    return()
endif()

add_library(kpx_kernels OBJECT ${KPX_GENERATED}/gen_kernels.cpp)
target_include_directories(kpx_kernels PRIVATE ${PROJECT_SOURCE_DIR}/csrc ${KPX_GENERATED})
set_source_files_properties(${KPX_GENERATED}/gen_kernels.cpp PROPERTIES OBJECT_DEPENDS "${outputs}")
# Kompute is one long step; the many short ones after it keep all cores busy to the end.
if(TARGET kompute)
    add_dependencies(kpx_kernels kompute)
endif()
