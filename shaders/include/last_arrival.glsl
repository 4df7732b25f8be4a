// Determines which of several workgroups that share results is the last to store its part of them.
//
// Before the include: arrivals[], a coherent buffer of counters that are zero at first. The parts must also be in a
// coherent buffer; in kernels that may overlap others, which include overlap.glsl before, in a volatile one.
#ifndef LAST_ARRIVAL_GLSL
#define LAST_ARRIVAL_GLSL

shared uint arrived_s;

// Overlapping relies on volatile loads reading memory when they are issued (RATIONALE.md, Dispatches that wait by
// themselves). So loads after the arrival need no barrier of their own, which takes an H200 up to 0.8 µs.
#ifdef OVERLAP_GLSL
const bool ACQUIRES = OVERLAP == 0;
#else
const bool ACQUIRES = true;
#endif

// Orders the workgroup's memory accesses before and after it.
void workgroup_barrier() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Whether all `others` workgroups that use this counter have stored their parts.
// The last one resets the counter. Called by all threads together.
bool is_last(uint counter, uint others) {
    workgroup_barrier();
    if (gl_LocalInvocationIndex == 0) {
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
        arrived_s = atomicAdd(arrivals[counter], 1);
        if (ACQUIRES) {
            memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
        }
    }
    if (ACQUIRES) {
        workgroup_barrier();
    } else {
        barrier();
    }
    bool last = arrived_s == others - 1;
    if (last && gl_LocalInvocationIndex == 0) {
        atomicExchange(arrivals[counter], 0);
    }
    return last;
}

#endif
