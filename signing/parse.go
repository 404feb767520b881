package signing

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedisct1/go-minisign"
)

const takeSig = "take the content of the .sig file that was made beside the bundle"

// ParseSignature parses the signature member of a manifest, the content of a .sig
// file, as clients do: padded base64 of a minisign signature file, with nothing
// around it.
//
// The error is a *FormatError that names the usual mistakes.
func ParseSignature(line string) (Signature, error) {
	if len(line) > MaxSignature {
		return Signature{}, malformed("signature is longer than 8 KiB", takeSig+", not the bundle")
	}
	if fault := notSignature(line, inspect(line)); fault != nil {
		return Signature{}, fault
	}
	raw, ok := decodeStrictly(line)
	if !ok {
		return Signature{}, misspelled(line)
	}
	return decodeSignature(string(raw))
}

// ReadSignature parses the files that lie beside bundles in practice: a .sig file,
// with or without a line break at its end, or a minisign signature file (.minisig).
//
// The error is a *FormatError.
func ReadSignature(text string) (Signature, error) {
	if found := inspect(text); found.layers == 0 && !found.bare &&
		(found.what == signature || found.what == damaged) {
		return decodeSignature(text)
	}
	return ParseSignature(strings.TrimRight(text, "\r\n"))
}

// notSignature describes a text that is not the base64 of a signature; nil if it is.
func notSignature(line string, found finding) *FormatError {
	switch {
	case found.what == secretKey, found.what == publicKey:
		return misplaced(line, found.what, signature, takeSig)
	case found.what == unknown:
		return unrecognised(line)
	case found.bare:
		return malformed("signature lacks its comments: this is one line of a minisign file",
			"encode the whole file of four lines in base64, as the Tauri CLI does")
	case found.layers == 0:
		return malformed("signature is a minisign file, not its base64",
			"encode the whole file in base64 without line breaks, as the Tauri CLI does")
	case found.layers > 1:
		return malformed("signature is encoded in base64 more than once",
			"a .sig file of the Tauri CLI is base64 already: use its content as it is")
	}
	return nil
}

// unrecognised describes a text that is neither key nor signature.
func unrecognised(line string) *FormatError {
	text := strings.ToLower(strings.TrimSpace(line))
	switch {
	case isBlank(line):
		return malformed("signature is empty", takeSig)
	case strings.HasPrefix(line, "\xff\xfe"), strings.HasPrefix(line, "\xfe\xff"):
		return malformed("signature is text in UTF-16", "save the .sig file as UTF-8 without a byte order mark")
	case strings.Contains(text, "://"):
		return malformed("signature is a URL", takeSig+", not its address")
	case strings.HasSuffix(text, ".sig"), strings.HasSuffix(text, ".minisig"):
		return malformed("signature is the name of a file", takeSig+", not its name")
	}
	if _, ok := decodeLoosely(text); ok {
		return malformed("signature is base64, but not of a minisign signature", takeSig+", not the bundle")
	}
	return malformed("signature is not base64", takeSig)
}

// misspelled says why clients can't decode a line that is almost base64.
func misspelled(line string) *FormatError {
	const mend = "use one line of base64 as the Tauri CLI writes it: "
	switch {
	case strings.HasPrefix(line, bom):
		return malformed("signature begins with a byte order mark", "save the .sig file as UTF-8 without a byte order mark")
	case strings.TrimRight(line, "\r\n") != line:
		return malformed("signature ends in a line break", mend+"remove the line break")
	case strings.TrimSpace(line) != line:
		return malformed("signature has white space around it", mend+"remove the white space")
	case strings.ContainsAny(line, " \t\r\n"):
		return malformed("signature has white space inside", mend+"join its parts (base64 -w0 does not break lines)")
	case strings.ContainsAny(line, "-_"):
		return malformed("signature is URL-safe base64", mend+"with + and / in place of - and _")
	case len(line)%4 != 0:
		return malformed("signature is base64 with padding missing", mend+"with = at its end where length asks for it")
	}
	return malformed("signature is damaged base64", takeSig)
}

// decodeSignature parses the four lines of a minisign signature file.
func decodeSignature(text string) (Signature, error) {
	const again = "sign the bundle again"
	all := lines(text)
	switch {
	case !utf8.ValidString(text):
		return Signature{}, malformed("signature file is not UTF-8", again)
	case strings.HasPrefix(text, bom):
		return Signature{}, malformed("signature file begins with a byte order mark",
			"save the signature file as UTF-8 without one, and encode it again")
	case len(all) > 4:
		return Signature{}, malformed("signature file has more than four lines", "use one signature file for each bundle")
	case len(all) < 4:
		return Signature{}, malformed("signature file has fewer than four lines", again+": its trusted comment is missing")
	case !isComment(all[0], untrustedPrefix):
		return Signature{}, malformed("signature file does not begin with an untrusted comment", again)
	case !isComment(all[2], trustedPrefix):
		return Signature{}, malformed("signature file has no trusted comment in its third line", again)
	}
	parsed, err := minisign.DecodeSignature(strings.Join(all, "\n"))
	_, first := decodeStrictly(all[1])
	_, second := decodeStrictly(all[3])
	s := Signature{parsed}
	switch {
	case err != nil || !first || !second:
		return Signature{}, malformed("signature file is damaged: its second or fourth line is not what minisign writes", again)
	case parsed.SignatureAlgorithm != algorithmPure && !s.Prehashed():
		return Signature{}, malformed("signature is of an unknown algorithm", again)
	case len(s.String()) > MaxSignature:
		return Signature{}, malformed("signature is longer than 8 KiB", again+" with shorter comments")
	}
	return s, nil
}

// isComment reports whether line is a comment without control characters other
// than tabs.
func isComment(line, prefix string) bool {
	return strings.HasPrefix(line, prefix) && !strings.ContainsFunc(line, func(r rune) bool {
		return r != '\t' && unicode.IsControl(r)
	})
}

func isBlank(text string) bool {
	return strings.TrimSpace(strings.TrimPrefix(text, bom)) == ""
}
