package monitor

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"tsmon/store/series"
)

// maxWants bounds what one batch may ask the database for.
const maxWants = 4000

// currentValues answers a batch: a value for each id that was asked for, null
// where there is none, by one question to the database.
func (s *Server) currentValues(r *http.Request, who caller) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	window := time.Duration(who.tenant.Settings.Window)
	plan, err := s.plans.find(body, window, func() (*plan, error) { return readBatch(body, window) })
	if err != nil {
		return nil, err
	}
	result, err := s.compute(r.Context(), who, plan)
	return data{result}, err
}

func readBatch(body []byte, window time.Duration) (*plan, error) {
	var items []struct {
		Variable *variable `json:"dataTs"`
	}
	if err := decodeJSON(body, &items); err != nil {
		return nil, err
	}
	if err := atMost("the batch", len(items)); err != nil {
		return nil, err
	}
	variables := make([]*variable, len(items))
	for i, item := range items {
		variables[i] = item.Variable
	}
	readings, err := readAll(variables, window)
	if err != nil {
		return nil, err
	}
	return newPlan(readings)
}

// readAll finds out what each variable's value is made of, by id.
func readAll(variables []*variable, window time.Duration) (map[string]reading, error) {
	var wrong problems
	readings := make(map[string]reading, len(variables))
	for i, v := range variables {
		if v == nil || v.ID.Text == "" {
			wrong.add("item %d: it needs dataTs with an id", i)
			continue
		}
		found, err := v.read(window)
		if err != nil {
			wrong.add("item %d (id %.80q): %s", i, v.ID.Text, err)
			continue
		}
		if first, ok := readings[v.ID.Text]; ok && !reflect.DeepEqual(first, found) {
			wrong.add("item %d: id %.80q stands for something else in an earlier item", i, v.ID.Text)
		}
		readings[v.ID.Text] = found
	}
	return readings, wrong.err()
}

// compute asks for all that a plan needs and computes its readings.
func (s *Server) compute(ctx context.Context, who caller, p *plan) (map[string]*float64, error) {
	var values []series.Value
	if len(p.wants) > 0 {
		var err error
		if values, err = s.values.Current(ctx, who.tenant.TsName, p.wants); err != nil {
			return nil, err
		}
	}
	found := func(want series.Want) series.Value { return values[p.places[want]] }
	result := make(map[string]*float64, len(p.readings))
	for id, reading := range p.readings {
		result[id] = reading.value(found)
	}
	return result, nil
}

// currentValue answers the last value of one field.
func (s *Server) currentValue(r *http.Request, who caller) (any, error) {
	var query struct {
		CalcField   string `json:"calc_field"`
		Measurement string `json:"measurement"`
	}
	if err := decode(r, &query); err != nil {
		return nil, err
	}
	want := series.Want{Key: series.Key{Measurement: query.Measurement, Field: query.CalcField}}
	if err := series.ValidWants([]series.Want{want}); err != nil {
		return nil, invalid("%s", err)
	}
	values, err := s.values.Current(r.Context(), who.tenant.TsName, []series.Want{want})
	if err != nil {
		return nil, err
	}
	type value struct {
		Value *float64 `json:"value"`
	}
	answer := value{}
	if values[0].Found {
		answer.Value = &values[0].Number
	}
	return data{map[string]value{query.CalcField: answer}}, nil
}
