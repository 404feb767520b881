package record

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// reserved are schemas of the database and of this store.
var reserved = map[string]bool{"public": true, "information_schema": true, "tsmon": true}

// ValidSchema reports why a schema name is not valid: it must match
// ^[a-z_][a-z0-9_]{0,62}$, not begin with pg_ and not be public, information_schema
// or tsmon. The error wraps ErrName.
func ValidSchema(name string) error {
	switch {
	case !schemaName.MatchString(name):
		return fmt.Errorf("%w: %.80q is not 1 to 63 lower-case letters, digits and underscores, the first of them no digit", ErrName, name)
	case strings.HasPrefix(name, "pg_") || reserved[name]:
		return fmt.Errorf("%w: %s is reserved", ErrName, name)
	}
	return nil
}

// Storable reports whether every database can hold s: UTF-8 without a NUL.
func Storable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// EmailKey returns the text by which e-mail addresses are compared. It is Storable if the
// address is.
func EmailKey(email string) string {
	if !utf8.ValidString(email) {
		return email // ToLower would replace the bytes that are not UTF-8
	}
	return strings.ToLower(email)
}

// text returns ErrInvalid if a value can't be stored. pairs are names and values.
func text(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if !Storable(pairs[i+1]) {
			return fmt.Errorf("%w: %s contains a NUL or bytes that are not UTF-8", ErrInvalid, pairs[i])
		}
	}
	return nil
}

// positive returns ErrInvalid unless an id is positive.
func positive(name string, id int64) error {
	if id < 1 {
		return fmt.Errorf("%w: %s %d is not positive", ErrInvalid, name, id)
	}
	return nil
}

const maxName = 256 // bytes of a text in an index

// short returns ErrInvalid if a value is too long. pairs are names and values.
func short(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if len(pairs[i+1]) > maxName {
			return fmt.Errorf("%w: %s is longer than %d bytes", ErrInvalid, pairs[i], maxName)
		}
	}
	return nil
}
