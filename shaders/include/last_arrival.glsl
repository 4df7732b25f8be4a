// Which of several workgroups with the same results is the last to have stored
// its part of them.
//
// Before the include: arrivals[], a coherent buffer of counters that are zero at
// first. The parts must be in a coherent buffer, too.
#ifndef LAST_ARRIVAL_GLSL
#define LAST_ARRIVAL_GLSL

shared uint arrived_s;

// Orders what the workgroup did with memory before and after.
void workgroup_barrier() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Whether all `others` workgroups that use this counter have stored their parts.
// Leaves the counter as it was before the first. All threads together.
bool is_last(uint counter, uint others) {
    workgroup_barrier();
    if (gl_LocalInvocationIndex == 0) {
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
        arrived_s = atomicAdd(arrivals[counter], 1);
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    }
    workgroup_barrier();
    bool last = arrived_s == others - 1;
    if (last && gl_LocalInvocationIndex == 0) {
        atomicExchange(arrivals[counter], 0);
    }
    return last;
}

#endif
