//go:build !unix

package workers

// involuntarySwitches is not known here, so schedules never have fewer workers because
// of other programs.
func involuntarySwitches() int64 { return 0 }
