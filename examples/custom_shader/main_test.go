package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out)
	if !testmodel.VulkanBuilt {
		require.ErrorIs(t, err, kompute.ErrNoVulkan)
		return
	}
	require.NoError(t, err)
	require.Contains(t, out.String(), "[1 2.5 4 5.5] ... 1499.5")
}

func TestCompileErrors(t *testing.T) {
	if _, err := exec.LookPath("glslc"); err == nil {
		_, err := compile(t.Context(), []byte("not GLSL"))
		require.ErrorContains(t, err, "glslc")
	}
	t.Setenv("PATH", "")
	_, err := compile(t.Context(), scaleSource)
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "apt-get install glslc")
}
