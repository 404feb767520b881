package durable

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// ReadText reads a UTF-8 file of at most most bytes, without its byte order mark.
func ReadText(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, most)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s: not UTF-8", path)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}
