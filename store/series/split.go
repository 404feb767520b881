package series

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// splitter splits line protocol into lines. A newline in a quoted text does not
// end a line.
type splitter struct {
	scanner *bufio.Scanner
	number  int // of the line that next returned or failed at
	after   int // number of the following line
}

func newSplitter(r io.Reader) *splitter {
	s := &splitter{scanner: bufio.NewScanner(r), after: 1}
	s.scanner.Buffer(make([]byte, 0, 4096), maxLine)
	s.scanner.Split(splitLine)
	return s
}

// next returns the next line that holds a sample, and io.EOF after the last.
func (s *splitter) next() ([]byte, error) {
	for s.scanner.Scan() {
		raw := s.scanner.Bytes()
		s.number = s.after
		s.after += bytes.Count(raw, []byte{'\n'})
		if err := s.scanner.Err(); err != nil && !bytes.HasSuffix(raw, []byte{'\n'}) {
			return nil, err // instead of the part of a line before it
		}
		line := bytes.TrimLeft(bytes.TrimRight(raw, "\r\n"), " \t")
		if len(line) > 0 && line[0] != '#' {
			return line, nil
		}
	}
	s.number = s.after
	err := s.scanner.Err()
	switch {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxLine)
	}
	return nil, err
}

// splitLine is a bufio.SplitFunc whose tokens keep their newline.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if end := lineEnd(data); end >= 0 {
		return end + 1, data[:end+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// lineEnd returns the index of the newline that ends the first line of data, or -1.
// Quotes count only in the value of a field: after the space that ends the names,
// while there have been more equals signs than commas.
func lineEnd(data []byte) int {
	lead := len(data) - len(bytes.TrimLeft(data, " \t\r"))
	if bytes.HasPrefix(data[lead:], []byte{'#'}) {
		return bytes.IndexByte(data, '\n')
	}
	fields, quoted, values := false, false, 0
	for i := lead; i < len(data); i++ {
		switch b := data[i]; {
		case b == '\n' && !quoted:
			return i
		case b == '\\' && i+1 < len(data) && data[i+1] != '\n':
			i++
		case b == '"' && fields && values > 0:
			quoted = !quoted
		case quoted:
		case b == ' ':
			fields = true
		case b == '=' && fields:
			values++
		case b == ',' && fields:
			values--
		}
	}
	return -1
}
