package series

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var now = time.Date(2026, 3, 5, 15, 4, 5, 0, time.UTC)

// lines reads everything, up to the first error.
func lines(text string, unit time.Duration) (samples []Sample, err error) {
	for s, e := range Lines(strings.NewReader(text), unit, now) {
		if e != nil {
			return samples, e
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func TestLines(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	tags := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		text string
		want []Sample
	}{
		{"m f=1 1700000000", []Sample{{"m", tags(), map[string]any{"f": 1.0}, at}}},
		{"m f=-1.5e3", []Sample{{"m", tags(), map[string]any{"f": -1500.0}, now}}},
		{"m f=12i,g=7u,h=-3i 1700000000\n", []Sample{{"m", tags(), map[string]any{"f": int64(12), "g": int64(7), "h": int64(-3)}, at}}},
		{"m a=t,b=T,c=true,d=f,e=FALSE", []Sample{{"m", tags(), map[string]any{"a": true, "b": true, "c": true, "d": false, "e": false}, now}}},
		{"m,a=b,c=d\\ e f=1", []Sample{{"m", tags("a", "b", "c", "d e"), map[string]any{"f": 1.0}, now}}},
		{`m\,1\ x,a\=b=c\,d f\ \,\=1=1`, []Sample{{"m,1 x", tags("a=b", "c,d"), map[string]any{"f ,=1": 1.0}, now}}},
		{`m f="a \"b\" \\ \n,c=d e",g=1 1700000000`, []Sample{{"m", tags(), map[string]any{"f": `a "b" \ \n,c=d e`, "g": 1.0}, at}}},
		{"m f=\"two\nlines\"\r\n\r\nn f=1\r\n", []Sample{{"m", tags(), map[string]any{"f": "two\nlines"}, now}, {"n", tags(), map[string]any{"f": 1.0}, now}}},
		{"# it's \"a comment\n\n  \nm f=1\n#m f=2", []Sample{{"m", tags(), map[string]any{"f": 1.0}, now}}},
		{"  m   f=1   1700000000  \n", []Sample{{"m", tags(), map[string]any{"f": 1.0}, at}}},
		{`m"x f"=1,g"=2`, []Sample{{`m"x`, tags(), map[string]any{`f"`: 1.0, `g"`: 2.0}, now}}},
		{`C:\new f\t=1`, []Sample{{`C:\new`, tags(), map[string]any{`f\t`: 1.0}, now}}},
		{"", nil},
	} {
		got, err := lines(c.text, time.Second)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q gives %+v, %v", c.text, got, err)
		}
	}
}

func TestLinesRefused(t *testing.T) {
	for _, text := range []string{
		"m", "m ", "m f", "m f=", "m =1", " f=1", ",a=b f=1", "m,a f=1", "m,a= f=1", "m,=b f=1", "m,a=b=c f=1", "m,a=b,a=c f=1", "m, f=1",
		"m f=1,", "m f=1,,g=2", "m f=1 x", "m f=1 1 2", "m f=1 1.5", "m f=1 9999999999999999999", "m f=1 9000000000000", "m f=NaN", "m f=Inf",
		"m f=-inf", "m f=0x10", "m f=1_000", "m f=1e999", "m f=1e301", "m f=1i2", "m f=99999999999999999999i", "m f=-1u", "m f=tr", "m f='x'",
		`m f="x`, `m f="x"y`, "m\x00 f=1", "m\xff f=1", "m f\x01=1", "_m f=1", "m _f=1", "m time=1", "m,time=1 f=1", `m\ f=1`, `m\\ f=1`,
		"m f=\"\xff\"", "m f=\"\x00\"", "m\tx f=1", strings.Repeat("x", 257) + " f=1", `m f="` + strings.Repeat("x", 1<<16+1) + `"`,
		"m" + strings.Repeat(",a=b", 65) + " f=1", "m f=" + strings.Repeat("1", 5000),
	} {
		got, err := lines("ok f=1\n"+text+"\nm f=1", time.Second)
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrName) {
			t.Errorf("%.80q gives the error %v", text, err)
		} else if !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%.80q: the error is %v", text, err)
		}
		if len(got) != 1 {
			t.Errorf("%.80q: %d samples", text, len(got))
		}
	}
	var many strings.Builder
	many.WriteString("m f=1")
	for range maxCols {
		many.WriteString(",f=1")
	}
	if _, err := lines(many.String(), 1); err != nil {
		t.Errorf("one field many times: %v", err)
	}
	if _, err := lines("m f=1\n\n\"\nm f=\"a\nb\nc\"\nm f", 1); err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := lines("m f=\"a\nb\nc\"\nm f", 1); err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestLinesBounded(t *testing.T) {
	_, err := lines("m f=1\nm f=\""+strings.Repeat("\n", 2*maxLine), 1)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
	endless := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("m f=1\nm f=1\n")))
	var last error
	for _, last = range Lines(endless, 1, now) {
	}
	if !errors.Is(last, iotest.ErrTimeout) {
		t.Errorf("the error is %v", last)
	}
	for range Lines(strings.NewReader("m f=1\nm f=1\n"), 1, now) {
		break
	}
}

// FuzzLines checks that whatever is read can be written and read again, and
// that equal samples give equal lines.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"m f=1 1700000000", `m\,1\ x,a\=b=c\,d f\ \,\=1=1`, `m f="a \"b\" \\ \n,c=d e",g=1i 17`, "# \"\nm f=t\n", "m,a=b f=\"x\ny\"\r\n\nm f=2u",
		`m"x f"=1,g"=2`, `C:\new f\t=1`, "m f=1e300,g=-0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for s, err := range Lines(strings.NewReader(text), time.Second, now) {
			if err != nil {
				return
			}
			line := AppendLine(nil, s)
			again, err := lines(string(line), 1)
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], s) {
				t.Fatalf("%q: %+v became %q and then %+v, %v", text, s, line, again, err)
			}
			if other := AppendLine(nil, again[0]); !bytes.Equal(line, other) {
				t.Fatalf("%q and %q", line, other)
			}
		}
	})
}

func csvSamples(text string) (samples []Sample, err error) {
	for s, e := range CSV(strings.NewReader(text), time.Millisecond) {
		if e != nil {
			return samples, e
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func TestCSV(t *testing.T) {
	got, err := csvSamples("\ufeffvalue,site,time,measurement,field,pump\n" +
		"1.5,north,2026-03-05T10:04:05-05:00,m,f,\n12i,,1772723045000,\"m, 2\",g,p 1\ntrue,,2026-03-05T15:04:05Z,m,b,\n\"\"\"a, \"\"\",,2026-03-05T15:04:05Z,m,t,\n")
	want := []Sample{
		{"m", map[string]string{"site": "north"}, map[string]any{"f": 1.5}, now},
		{"m, 2", map[string]string{"pump": "p 1"}, map[string]any{"g": int64(12)}, now},
		{"m", map[string]string{}, map[string]any{"b": true}, now},
		{"m", map[string]string{}, map[string]any{"t": "a, "}, now},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCSVRefused(t *testing.T) {
	const head = "time,measurement,field,value,tag\n"
	const good = "1772723045000,m,f,1,\n"
	for text, line := range map[string]string{
		"": "line 1: ", "time,measurement,value\n": "line 1: ", "\xff\n": "line 1: ",
		head + good + "1772723045000,m,f,x,\n":               "line 3: ",
		head + good + "1772723045000,m,f,\"1,5\",\n":         "line 3: ",
		head + good + "1772723045000,m,f,,\n":                "line 3: ",
		head + good + "yesterday,m,f,1,\n":                   "line 3: ",
		head + good + "1772723045000,m,f,1\n":                "line 3: ",
		head + good + "1772723045000,m,f,1,a,b\n":            "line 3: ",
		head + good + "1772723045000,m,f,1,\"a\nb\"\n":       "line 3: ",
		head + good + "1772723045000,m,f,1,\"a\n":            "line ",
		head + good + "1772723045000,_m,f,1,\n":              "line 3: ",
		head + "\n\n" + good + "1772723045000,m,time,1,\n":   "line 5: ",
		head + "1772723045000,m,f,\"\"\"a\nb\"\"\",\n" + "x": "line 4: ",
	} {
		if _, err := csvSamples(text); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrName) || !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%q gives the error %v", text, err)
		}
	}
	if _, err := csvSamples(head + "\"" + strings.Repeat("x\n", 2*maxLine)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
	for _, err := range CSV(io.MultiReader(strings.NewReader(head), iotest.ErrReader(io.ErrClosedPipe)), 1) {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the error is %v", err)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("time,measurement,field,value,tag\n1772723045000,m,f,1,\n")
	f.Add("value,time,measurement,field\n\"\"\"x\"\"\",2026-03-05T10:04:05-05:00,\"a,b\",f\n")
	f.Fuzz(func(t *testing.T, text string) {
		for s, err := range CSV(strings.NewReader(text), time.Millisecond) {
			if err != nil {
				return
			}
			if err := ValidSample(s); err != nil {
				t.Fatalf("%q gives %+v: %v", text, s, err)
			}
		}
	})
}
