package record

import (
	"encoding/json"
	"fmt"
)

// Variable is a configured time series, or a value computed from some.
type Variable struct {
	ID       ID              `json:"id"`
	Name     string          `json:"name"`
	Unit     *string         `json:"unit"`
	Type     string          `json:"type"`
	Calc     bool            `json:"calc"`
	Equation *string         `json:"equation"`
	Status   bool            `json:"status"` // true if absent in JSON
	VarsTs   json.RawMessage `json:"varsTs"` // an object of form A or B
}

// Bound is the part of a variable that its lines include.
type Bound struct {
	Name   string          `json:"name"`
	Unit   *string         `json:"unit"`
	VarsTs json.RawMessage `json:"varsTs"`
}

// Field names a series: a field of a measurement.
type Field struct {
	Measurement string
	Field       string
}

// UnmarshalJSON sets the defaults of absent members.
func (v *Variable) UnmarshalJSON(data []byte) error {
	type plain Variable
	p := plain{Type: "number", Status: true}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*v = Variable(p)
	return nil
}

// Field returns the measurement and field of a varsTs of form A, and the zero Field for
// form B.
func (v Variable) Field() Field {
	picked, _, err := split(v.VarsTs, "measurement", "field")
	if err != nil {
		return Field{}
	}
	var f Field
	if json.Unmarshal(picked["measurement"], &f.Measurement) != nil || json.Unmarshal(picked["field"], &f.Field) != nil {
		return Field{}
	}
	return f
}

func (v Variable) validate() error {
	if err := v.ID.validate(); err != nil {
		return err
	}
	if _, _, err := split(v.VarsTs); err != nil {
		return fmt.Errorf("varsTs: %w", err)
	}
	f := v.Field()
	if err := short("measurement", f.Measurement, "field", f.Field); err != nil {
		return err
	}
	return text("name", v.Name, "unit", deref(v.Unit), "type", v.Type, "equation", deref(v.Equation),
		"measurement", f.Measurement, "field", f.Field)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
