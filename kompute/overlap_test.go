package kompute

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the check that WithOverlap asks for cannot pass, the device opens without it,
// and says so.
func TestOverlapCheck(t *testing.T) {
	var log bytes.Buffer
	logger := WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	require.True(t, vulkanOrSkip(t, WithOverlap(), logger).Stats().Overlap)
	require.Empty(t, log.String())
	require.False(t, vulkanOrSkip(t, logger).Stats().Overlap)
	require.Empty(t, log.String())
	require.False(t, vulkanOrSkip(t, WithOverlap(), WithDisabled("overlap_check"), logger).Stats().Overlap)
	require.Contains(t, log.String(), "dispatches cannot overlap on this device")
}
