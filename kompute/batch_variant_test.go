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
