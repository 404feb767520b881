package influx

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// query is the text of one request and the names that are bound to its parameters.
type query struct {
	text       strings.Builder
	statements int
	gemini     bool                         // the server is openGemini
	patient    bool                         // the answer may take minutes
	places     map[string]string            // parameters of names
	names      map[string]map[string]string // by parameter, as the server wants them
}

// plain matches names that are safe within quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// query returns an empty query in the server's dialect.
func (s *server) query() query { return query{gemini: s.gemini.is.Load()} }

// bind returns a name as it stands in a statement. One that is not plain becomes a
// parameter, which is slower but always read as one identifier.
func (q *query) bind(name string) string {
	if plain.MatchString(name) {
		return `"` + name + `"`
	}
	if q.gemini {
		return quote(name)
	}
	if place, ok := q.places[name]; ok {
		return place
	}
	if q.places == nil {
		q.places, q.names = map[string]string{}, map[string]map[string]string{}
	}
	id := "n" + strconv.Itoa(len(q.places))
	q.places[name] = "$" + id
	q.names[id] = map[string]string{"identifier": name}
	return "$" + id
}

func (q *query) add(statement string) {
	if q.statements++; q.statements > 1 {
		q.text.WriteByte(';')
	}
	q.text.WriteString(statement)
}

// row is one series of an answer: the values of one measurement.
type row struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags"`
	Columns []string          `json:"columns"`
	Values  [][]any           `json:"values"` // json.Number, bool, string or nil
	Partial bool              `json:"partial"`
}

// oldestFirst reports whether the second of the values is later than the first.
func (r row) oldestFirst() bool {
	if len(r.Values) < 2 || len(r.Values[0]) == 0 || len(r.Values[1]) == 0 {
		return false
	}
	first, _ := nanoseconds(r.Values[0][0])
	second, _ := nanoseconds(r.Values[1][0])
	return second > first
}

// answer is the server's response. It may report a failure with status 200.
type answer struct {
	Results []struct {
		ID      int    `json:"statement_id"`
		Series  []row  `json:"series"`
		Partial bool   `json:"partial"`
		Error   string `json:"error"`
	} `json:"results"`
	Error string `json:"error"`
}

// ask sends a query, unless it is empty, and returns the rows of each of its statements.
func (s *server) ask(ctx context.Context, database string, q query) ([][]row, error) {
	if q.statements == 0 { // which the server would refuse
		return nil, nil
	}
	form := url.Values{"q": {q.text.String()}, "epoch": {"ns"}}
	if q.names != nil {
		params, err := json.Marshal(q.names)
		if err != nil {
			return nil, err
		}
		form.Set("params", string(params))
	}
	if database != "" {
		form.Set("db", database)
	}
	timeout := s.timeout
	if q.patient {
		timeout = max(timeout, patientTime)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, service.ServerURL()+"query", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", "identity") // compression costs more time than it saves
	response, err := service.DoHTTPRequestWithResponse(request, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return read(response, q.statements)
}

func read(response *http.Response, statements int) ([][]row, error) {
	var a answer
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	err := decoder.Decode(&a)
	if response.StatusCode != http.StatusOK {
		return nil, &client.Error{StatusCode: response.StatusCode, Message: a.Error}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body) // so that the connection can be reused
	}
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return a.rows(statements)
}

// rows returns the series of each statement. It checks the number of statements, since the
// server leaves out all after one that failed.
func (a answer) rows(statements int) ([][]row, error) {
	if a.Error != "" {
		return nil, &client.Error{StatusCode: http.StatusOK, Message: a.Error}
	}
	rows := make([][]row, statements)
	for i, result := range a.Results {
		if result.Error == "measurement not found" && result.ID == i && i < statements { // openGemini's word for no row
			continue
		}
		if result.Error != "" {
			return nil, &client.Error{StatusCode: http.StatusOK, Message: result.Error}
		}
		if result.ID != i || i >= statements || result.Partial {
			return nil, errIncomplete
		}
		for _, r := range result.Series {
			if r.Partial {
				return nil, errIncomplete
			}
		}
		rows[i] = result.Series
	}
	if len(a.Results) != statements {
		return nil, errIncomplete
	}
	return rows, nil
}

// number reads a cell; false if it is empty.
func number(cell any) (float64, bool) {
	switch v := cell.(type) {
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// nanoseconds reads a cell of the column time.
func nanoseconds(cell any) (int64, bool) {
	v, ok := cell.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := v.Int64()
	return n, err == nil
}
