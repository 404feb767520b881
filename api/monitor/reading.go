package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsmon/api/monitor/equation"
	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// aggregates are the types of a variable. Absent, null, empty and number mean last.
var aggregates = map[string]series.Aggregate{
	"": series.Last, "number": series.Last, "last": series.Last,
	"mean": series.Mean, "max": series.Max, "min": series.Min, "sum": series.Sum,
}

// variable is a Variable as a client sends it in a batch. Optional members may be
// null, which is as if they were absent.
type variable struct {
	ID       record.ID       `json:"id"`
	Type     string          `json:"type"`
	Calc     bool            `json:"calc"`
	Equation string          `json:"equation"`
	VarsTs   json.RawMessage `json:"varsTs"`
}

// reading says how to compute one variable.
type reading struct {
	operands map[string]operand // by key of varsTs
	equation *equation.Equation // nil: the value of the only operand, if there is one
}

// operand is one value: of the first of its keys that has a point.
type operand []series.Want

// read returns the reading of a variable. Its errors describe what is wrong with the
// variable; they may wrap errors of package series.
func (v variable) read(window time.Duration) (reading, error) {
	aggregate, ok := aggregates[v.Type]
	if !ok {
		return reading{}, fmt.Errorf("type %.40q is none of last, mean, max, min and sum", v.Type)
	}
	if aggregate == series.Last {
		window = 0 // it has none
	}
	operands, several, err := v.operands(aggregate, window)
	if err != nil {
		return reading{}, err
	}
	return combine(operands, several, v.Equation, v.Calc)
}

// CheckVariable returns why a Variable, given as JSON, can't have a value.
func CheckVariable(text []byte) error {
	var v variable
	if err := json.Unmarshal(text, &v); err != nil {
		return errors.New(web.JSONProblem(err))
	}
	_, err := v.read(0)
	return err
}

// combine joins operands by an equation, which is required for several operands and
// used if calc is true or it is required.
func combine(operands map[string]operand, several bool, text string, calc bool) (reading, error) {
	switch {
	case text == "" && calc, text == "" && several:
		return reading{}, errors.New("equation is missing")
	case text == "" || !calc && !several:
		return reading{operands: operands}, nil
	}
	eq, err := equation.Parse(text, slices.Collect(maps.Keys(operands)))
	if err != nil {
		return reading{}, fmt.Errorf("equation: %w", err)
	}
	return reading{operands: operands, equation: eq}, nil
}

// operands reads varsTs: form A if its measurement is a string, else form B. several
// reports whether it names several values: form A is one value with several names.
func (v variable) operands(aggregate series.Aggregate, window time.Duration) (operands map[string]operand, several bool, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(v.VarsTs, &members); len(v.VarsTs) == 0 || err != nil || members == nil {
		return nil, false, errors.New("varsTs has to be an object")
	}
	if len(members) > web.MaxItems {
		return nil, false, fmt.Errorf("varsTs has %d members, at most %d are allowed", len(members), web.MaxItems)
	}
	want := func(measurement, field string) series.Want {
		return series.Want{Key: series.Key{Measurement: measurement, Field: field}, Aggregate: aggregate, Window: window}
	}
	if raw, ok := members["measurement"]; ok && raw[0] == '"' {
		operands, err = v.single(want)
		return operands, false, err
	}
	operands = make(map[string]operand, len(members))
	for key, raw := range members {
		var b struct {
			CalcField string `json:"calc_field"`
			Measure   string `json:"measure"`
		}
		if err := json.Unmarshal(raw, &b); err != nil || raw[0] != '{' {
			return nil, false, fmt.Errorf("varsTs: %.80q has to be an object with calc_field and measure", key)
		}
		operands[key] = operand{want(b.Measure, b.CalcField)}
		if err := series.ValidWants(operands[key]); err != nil {
			return nil, false, fmt.Errorf("varsTs: %.80q: %w", key, err)
		}
	}
	return operands, len(operands) > 1, nil
}

// single reads form A. Both of its fields are stored columns; calc_field is preferred
// if it has a point. An equation may use either name.
func (v variable) single(want func(measurement, field string) series.Want) (map[string]operand, error) {
	var a struct {
		Measurement string `json:"measurement"`
		Field       string `json:"field"`
		CalcField   string `json:"calc_field"`
	}
	if err := json.Unmarshal(v.VarsTs, &a); err != nil {
		return nil, errors.New("varsTs: measurement, field and calc_field have to be strings")
	}
	var value operand
	for _, field := range []string{a.CalcField, a.Field} {
		if field != "" {
			value = append(value, want(a.Measurement, field))
		}
	}
	if len(value) == 0 {
		return nil, errors.New("varsTs has neither field nor calc_field")
	}
	if err := series.ValidWants(value); err != nil {
		return nil, fmt.Errorf("varsTs: %w", err)
	}
	names := make(map[string]operand, len(value))
	for _, want := range value {
		names[want.Field] = value
	}
	return names, nil
}

func (d reading) wants() []series.Want {
	var wants []series.Want
	for _, o := range d.operands {
		wants = append(wants, o...)
	}
	return wants
}

// value computes the variable, nil if it is missing.
func (d reading) value(found func(series.Want) series.Value) *float64 {
	get := func(key string) (float64, bool) { return d.operands[key].value(found) }
	var number float64
	var ok bool
	if d.equation != nil {
		number, ok = d.equation.Value(get)
	} else {
		for key := range d.operands { // the only one by any of its names, if there is one
			number, ok = get(key)
		}
	}
	if !ok {
		return nil
	}
	number += 0 // turns -0 into 0
	return &number
}

func (o operand) value(found func(series.Want) series.Value) (float64, bool) {
	for _, want := range o {
		if v := found(want); v.Found {
			return v.Number, true
		}
	}
	return 0, false
}
