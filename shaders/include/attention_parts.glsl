// Combines the partial results of an attention over several ranges of keys. For
// each head and split they are a row of HEAD sums of weighted values, the
// highest score and the sum of the weights. Splits without keys have weight 0;
// everything else in them is undefined.
//
//   vec4 v = combined_quad(first, quad); // of the heads side by side
#ifndef ATTENTION_PARTS_GLSL
#define ATTENTION_PARTS_GLSL

const uint PART_QUADS = HEAD / 4 + 1;

vec4 combined_quad(uint offset, uint quad) {
    uint row = offset / 4 + quad / (HEAD / 4) * SPLITS * PART_QUADS;
    vec2 stats[SPLITS];
    vec4 parts[SPLITS];
    [[unroll]] for (uint s = 0; s < SPLITS; s++) {
        stats[s] = uintBitsToFloat(x_q32.data[row + s * PART_QUADS + HEAD / 4].xy);
        parts[s] = uintBitsToFloat(x_q32.data[row + s * PART_QUADS + quad % (HEAD / 4)]);
    }
    float top = stats[0].x;
    [[unroll]] for (uint s = 1; s < SPLITS; s++) {
        top = max(top, stats[s].x);
    }
    vec4 sum = vec4(0.0);
    float weight = 0.0;
    [[unroll]] for (uint s = 0; s < SPLITS; s++) {
        float factor = exp2(stats[s].x - top);
        weight += factor * stats[s].y;
        sum += stats[s].y != 0.0 ? factor * parts[s] : vec4(0.0);
    }
    return weight == 0.0 ? vec4(0.0) : sum / weight;
}

#endif
