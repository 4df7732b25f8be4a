// exp(x) is exp2(x * LOG2_E).
#ifndef LOG2_E_GLSL
#define LOG2_E_GLSL

const float LOG2_E = 1.44269504;

#endif
