// Dot products of four bytes (format 0), unsigned, signed, and signed with unsigned, by the device's instruction.
#ifndef BYTE_DOTS_GLSL
#define BYTE_DOTS_GLSL

#extension GL_EXT_spirv_intrinsics : require

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4451)
uint dot_unsigned(uint a, uint b, spirv_literal int format);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_signed(uint a, uint b, spirv_literal int format);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int dot_mixed(uint a, uint b, spirv_literal int format);

#endif
