package signing

import (
	"encoding/base64"
	"strings"
)

// content is the kind of a text, as far as its form shows.
type content int

const (
	unknown content = iota
	damaged         // a minisign file without a readable payload
	publicKey
	secretKey // encrypted or not
	signature
)

var contentNames = map[content]string{publicKey: "public key", secretKey: "private key", signature: "signature"}

// misplaced describes a text that is not of the wanted kind.
func misplaced(text string, found, wanted content, mend string) *FormatError {
	name := contentNames[wanted]
	switch {
	case contentNames[found] != "":
		if found == secretKey {
			mend += "; if this text was ever shared, replace the key"
		}
		return malformed("a "+contentNames[found]+" stands where a "+name+" belongs", mend)
	case isBlank(text):
		return malformed(name+" is empty", mend)
	}
	return malformed("text is not a minisign "+name, mend)
}

// Sizes of the payloads of minisign files, in bytes.
const (
	publicKeySize = 2 + 8 + 32
	secretKeySize = 2 + 2 + 2 + 32 + 8 + 8 + 8 + 64 + 32
	signatureSize = 2 + 8 + 64
	globalSize    = 64
)

type finding struct {
	what   content
	layers int  // of base64 around a minisign file or payload
	bare   bool // a payload without the lines around it
}

// maxLayers is how many layers of base64 inspect removes.
const maxLayers = 4

// inspect recognizes what text holds, for error messages. It tolerates what
// parsers must not: white space, byte order marks, base64 variants, repeated
// encoding.
func inspect(text string) finding {
	if len(text) > MaxSignature {
		return finding{}
	}
	for layers := range maxLayers {
		text = strings.TrimSpace(strings.TrimPrefix(text, bom))
		if strings.HasPrefix(text, "untrusted comment:") {
			return finding{what: fileContent(text), layers: layers}
		}
		raw, ok := decodeLoosely(text)
		if !ok {
			break
		}
		if what := payloadContent(raw); what != unknown {
			return finding{what: what, layers: layers, bare: true}
		}
		text = string(raw)
	}
	return finding{}
}

func fileContent(text string) content {
	all := lines(text)
	if len(all) > 1 {
		if raw, ok := decodeLoosely(all[1]); ok && payloadContent(raw) != unknown {
			return payloadContent(raw)
		}
	}
	if strings.Contains(all[0], "encrypted secret key") {
		return secretKey
	}
	return damaged
}

func payloadContent(raw []byte) content {
	if len(raw) < 2 || raw[0] != 'E' || (raw[1] != 'd' && raw[1] != 'D') {
		return unknown
	}
	switch len(raw) {
	case publicKeySize:
		return publicKey
	case secretKeySize:
		return secretKey
	case signatureSize:
		return signature
	}
	return unknown
}

var looseSpelling = strings.NewReplacer("-", "+", "_", "/", "=", "", " ", "", "\t", "", "\r", "", "\n", "")

// decodeLoosely decodes base64 of any common spelling.
func decodeLoosely(text string) ([]byte, bool) {
	raw, err := base64.RawStdEncoding.DecodeString(looseSpelling.Replace(text))
	return raw, err == nil && len(raw) > 0
}

// decodeStrictly decodes base64 as Rust's STANDARD engine does: padded, without
// white space or stray bits at the end. Go's decoder would skip line breaks.
func decodeStrictly(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	return raw, err == nil
}

// minisignLine returns the base64 payload of a key, which decodes: from the base64 of a
// two-line minisign file, from that file, or from its second line alone.
func minisignLine(text string) (line string, ok bool) {
	text = strings.TrimSpace(text)
	if raw, ok := decodeStrictly(text); ok && strings.HasPrefix(string(raw), untrustedPrefix) {
		text = strings.TrimSpace(string(raw))
	}
	all := lines(text)
	if len(all) == 2 && strings.HasPrefix(all[0], untrustedPrefix) {
		all = []string{strings.TrimSpace(all[1])}
	}
	if len(all) != 1 {
		return "", false
	}
	_, ok = decodeStrictly(all[0])
	return all[0], ok
}
