// Package tokenizer turns text into token ids and back, as a model's tokenizer.json
// specifies: byte-level BPE (GPT-2, Qwen, Llama 3).
//
// The steps of encoding, the same as in Hugging Face tokenizers:
//  1. Added tokens such as <|im_start|> are cut out, longest first, before
//     anything else happens to the text.
//  2. The text between them is normalized (NFC).
//  3. A regular expression splits it into pieces, roughly words.
//  4. Each byte of a piece becomes a symbol, and BPE merges neighbouring symbols,
//     the pair of lowest rank first, until no pair can be merged.
//
// Encode does not add tokens that belong before or after a text, such as Llama's
// <|begin_of_text|>: see [Tokenizer.Prefix].
//
// [LoadWith] also reads the added tokens in tokenizer_config.json.
//
// The files may come from anywhere: components that this package does not know
// are refused by name with [UnsupportedError], broken files with [FormatError] and
// [ConfigError].
package tokenizer
