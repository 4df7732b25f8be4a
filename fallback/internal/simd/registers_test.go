package simd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Functions for processors without AVX-512 must not use what only its encoding has. A processor with AVX-512 runs them
// either way, so no other test notices it there.
func TestNarrowFormsHaveNoWideInstructions(t *testing.T) {
	wide := regexp.MustCompile(`[XY](1[6-9]|2[0-9]|3[01])\b|\bZ[0-9]|\bK[0-7]\b|_BCST|_Z\b|\bV\w+[FI](32|64)X[248]\b|VMOVDQ[AU](8|16|32|64)\b|VPTERNLOG|VPERM[IT]2|VRNDSCALE|VSCALEF`)
	narrow := 0
	for name, function := range generatedFunctions(t) {
		if strings.HasSuffix(name, "AVX2") || strings.HasSuffix(name, "AVXVNNI") {
			narrow++
			require.NotRegexp(t, wide, function, name)
		}
	}
	require.Greater(t, narrow, 20, "functions are recognized by their names")
}

// Nor must those for AVX-512 without VBMI use what VBMI adds.
func TestOnlyVBMIFormsPermuteBytes(t *testing.T) {
	bytes := regexp.MustCompile(`VPERMB|VPERM[IT]2B|VPMULTISHIFTQB`)
	users := 0
	for name, function := range generatedFunctions(t) {
		if bytes.MatchString(function) {
			users++
			require.Contains(t, name, "VBMI")
		}
	}
	require.Positive(t, users)
}

// Vector registers are used by AVX alone: an SSE instruction takes some 100 ns if it meets 512-bit registers in use.
func TestNoSSE(t *testing.T) {
	sse := regexp.MustCompile(`\n\s+([AC-UW-Z]\w*|BLEND\w+)\s[^\n]*\b[XYZ]\d+\b`)
	require.Regexp(t, sse, "\n\tMOVSS        shift+24(FP), X15\n")
	for name, function := range generatedFunctions(t) {
		require.NotRegexp(t, sse, function, name)
	}
}

// generatedFunctions returns the text of each function for amd64, by its name.
func generatedFunctions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("gen_*_amd64.s")
	require.NoError(t, err)
	functions := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, function := range strings.Split(string(text), "\nTEXT ·")[1:] {
			name, _, _ := strings.Cut(function, "(SB)")
			functions[name] = function
		}
	}
	return functions
}
