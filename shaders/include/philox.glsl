// Philox 4x32-10 (Salmon et al., SC 2011): counter and key give the same four
// words everywhere. fallback/philox.go is the same.
#ifndef PHILOX_GLSL
#define PHILOX_GLSL

uvec4 philox(uvec4 c, uvec2 k) {
    for (uint i = 0u; i < 10u; i++) {
        uint high0, low0, high1, low1;
        umulExtended(c.x, 0xD2511F53u, high0, low0);
        umulExtended(c.z, 0xCD9E8D57u, high1, low1);
        c = uvec4(high1 ^ c.y ^ k.x, low1, high0 ^ c.w ^ k.y, low0);
        k += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

#endif
