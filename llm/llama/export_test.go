package llama

// Wavelengths are what RoPE is given, for the test of them alone.
func Wavelengths(c Config) []float32 { return c.Scaling.wavelengths(c.RopeTheta, c.HeadDim) }
