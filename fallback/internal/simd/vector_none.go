//go:build !amd64 && !arm64

package simd

func vectorLevels() []Level        { return nil }
func codeDotsForm() *codeDotsForms { return nil }
func panelKernels() []panelKernel  { return nil }
