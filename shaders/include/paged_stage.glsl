// A section of paged_fragments.glsl: loads a batch of keys or values, which lies in one piece in its page, and
// hands it out by way of shared memory.
//
// Before the include: what paged_fragments.glsl defines before it. After the include: keys_from and values_from,
// where the key and value of a head and token of a page begin; keys_bits and values_bits, quads of them.
#ifndef PAGED_STAGE_GLSL
#define PAGED_STAGE_GLSL

uint keys_from(uint page, uint head, uint token);
uint values_from(uint page, uint head, uint token);
uvec4 keys_bits(uint at);
uvec4 values_bits(uint at);

// Lanes load quads, and find what they need of them in shared memory.
const uint PITCH = GROUPS * (CACHE_GROUP / 4 + 1), WORDS = BATCH * PITCH, LOADS = (WORDS / 4 + 31) / 32;
uvec4 key_quads[LOADS], value_quads[LOADS]; // under way
shared uint stage[SLOTS * WORDS];
shared uint new_words[NEW_KEYS ? 2 * PITCH : 1]; // a new key, and its value
vec4 scales[4]; // of the keys whose scores the lane has, or of their values

// Where a batch begins, in quads. For keys beyond the last one, it is the batch of the last one.
struct Place {
    uint page, key, value;
};

Place place_of(uint table_row, uint key_head, uint key, uint end) {
    key = min(key, end - 1) / BATCH * BATCH;
    uint number = key / PAGE;
    uint page = uint(table[table_row + number * p.table_strides[1]]), read = min(page, p.pages - 1);
    return Place(page, keys_from(read, key_head, key % PAGE) / 16, values_from(read, key_head, key % PAGE) / 16);
}

// The lane's quad i of a batch. Lanes beyond the last repeat it.
uint quad_of_lane(uint i) {
    uint at = i * 32 + gl_SubgroupInvocationID;
    return i * 32 + 32 <= WORDS / 4 ? at : min(at, WORDS / 4 - 1);
}

void load_keys(Place at) {
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        key_quads[i] = keys_bits(at.key + quad_of_lane(i));
    }
}

void load_values(Place at) {
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        value_quads[i] = values_bits(at.value + quad_of_lane(i));
    }
}

// Where the head of a key begins in the stage.
uint staged(uint key) { return slot_index() * WORDS + key * PITCH; }

void put_quad(uint to, uvec4 v) {
    [[unroll]] for (uint c = 0; c < 4; c++) {
        stage[to + c] = v[c];
    }
}

// Puts loaded quads into the stage, and takes their scales from there. kind: 0 for keys, 1 for values. seen: how many
// keys exist. Those after them get scales of zero, since anything may be in their place; for kind 0 it is BATCH, since
// weigh drops their scores. new_key: the place in the batch of a key that is in no page yet, if less than BATCH.
void put(uvec4 quads[LOADS], uint kind, uint seen, uint new_key) {
    subgroupBarrier(); // what is there has been read
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        put_quad(staged(0) + 4 * quad_of_lane(i), quads[i]);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    if (NEW_KEYS && new_key < BATCH) {
        for (uint i = gl_SubgroupInvocationID; i < PITCH; i += 32) {
            stage[staged(new_key) + i] = new_words[kind * PITCH + i];
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint from = staged(key_of(i)) + GROUPS * (CACHE_GROUP / 4);
        [[unroll]] for (uint n = 0; n < GROUPS; n++) {
            scales[i][n] = key_of(i) < seen ? uintBitsToFloat(stage[from + n]) : 0.0;
        }
    }
}

Place current, next; // of the keys whose loads are under way, and of those after them

// Begins the loads of the slot's first keys, with VALUES_AHEAD of their values, too.
void load_first(uint table_row, uint key_head, uint key, uint end) {
    if (key < end) {
        current = place_of(table_row, key_head, key, end);
        next = place_of(table_row, key_head, key + SLOTS * BATCH, end);
        load_keys(current);
        if (VALUES_AHEAD) {
            load_values(current);
        }
    }
}

#endif
