package kompute

// Version is the version of this module, without the "v" of its tags, and of the
// native library: CMake reads it here, for kompute-go.pc.
const Version = "0.1.0"
