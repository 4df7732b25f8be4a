package kompute

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows keep their bits unless WithoutBatchInvariance asks for others, and where the check
// that it asks for cannot pass, the device says so.
func TestBatchVariant(t *testing.T) {
	var log bytes.Buffer
	logger := WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	require.False(t, vulkanOrSkip(t, logger).Stats().BatchVariant)
	require.Empty(t, log.String())
	asked := vulkanOrSkip(t, WithoutBatchInvariance(), logger)
	if asked.Info().Type == "cpu" {
		require.False(t, asked.Stats().BatchVariant)
	}
	require.Equal(t, !asked.Stats().BatchVariant, bytes.Contains(log.Bytes(), []byte("without batch invariance")))
	log.Reset()
	require.False(t, vulkanOrSkip(t, WithoutBatchInvariance(), WithDisabled("fragment_check"), logger).Stats().BatchVariant)
	require.Contains(t, log.String(), "without batch invariance")
}

// How many rows keep their bits depends on the kernels.
func TestInvariantRows(t *testing.T) {
	cpu, err := Open("cpu")
	require.NoError(t, err)
	require.GreaterOrEqual(t, cpu.Stats().InvariantRows, 8)
	require.NoError(t, cpu.Close())
	if dev := vulkanOrSkip(t); dev.Info().Type != "cpu" {
		require.Contains(t, []int{1, 16, 64}, dev.Stats().InvariantRows)
		return
	}
	for _, off := range []string{"", "0"} {
		t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", off)
		require.Equal(t, 1, vulkanOrSkip(t).Stats().InvariantRows)
	}
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // the kernels of GPUs
	most := 64
	if vulkanOrSkip(t).Info().SubgroupSize < 8 {
		most = 1
	}
	require.Equal(t, most, vulkanOrSkip(t).Stats().InvariantRows)
	for _, kernel := range []string{"projection_coopmat", "projection_rows"} {
		require.Equal(t, min(most, 16), vulkanOrSkip(t, WithDisabled(kernel)).Stats().InvariantRows)
	}
	require.Equal(t, 1, vulkanOrSkip(t, WithDisabled("dot8")).Stats().InvariantRows)
}
