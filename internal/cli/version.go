package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/kompute-go/kompute-go/kompute"
)

// Version is the line that --version prints: the program, the version of this
// module, the commit if the build stamped one, and the Go toolchain with the
// platform that it built for.
func Version(program string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionLine(program, info)
}

func versionLine(program string, info *debug.BuildInfo) string {
	version := kompute.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			version += ", commit " + s.Value[:12]
		}
	}
	return fmt.Sprintf("%s (kompute-go) %s, %s %s/%s", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
