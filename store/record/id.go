package record

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// ID identifies a variable or a chart. It is a string or an integer of any size, and keeps
// its JSON type. As keys, 7 and "7" are equal. The zero ID means none.
type ID struct {
	Text    string
	Integer bool
}

// String returns the id as a key.
func (id ID) String() string { return id.Text }

const maxID = 200 // bytes

var integerText = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

func (id ID) validate() error {
	switch {
	case id.Text == "":
		return fmt.Errorf("%w: the id is missing", ErrInvalid)
	case len(id.Text) > maxID:
		return fmt.Errorf("%w: the id is longer than %d bytes", ErrInvalid, maxID)
	case id.Integer && !integerText.MatchString(id.Text):
		return fmt.Errorf("%w: %.80q is not an integer", ErrInvalid, id.Text)
	}
	return text("the id", id.Text)
}

// MarshalJSON returns a number for an integer, else a string.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.Integer {
		return []byte(id.Text), nil
	}
	return json.Marshal(id.Text)
}

// UnmarshalJSON accepts a string, an integer, or null for the zero ID.
func (id *ID) UnmarshalJSON(data []byte) error {
	*id = ID{}
	switch {
	case string(data) == "null":
		return nil
	case data[0] == '"':
		return json.Unmarshal(data, &id.Text)
	case integerText.Match(data):
		*id = ID{Text: string(data), Integer: true}
		return nil
	}
	return fmt.Errorf("%w: the id %.80s is neither a string nor an integer", ErrInvalid, data)
}
