package llama

// Wavelengths returns the wavelengths that RoPE is given, for their test.
func Wavelengths(c Config) []float32 { return c.Scaling.wavelengths(c.RopeTheta, c.HeadDim) }
