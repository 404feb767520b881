package s3

import (
	"strings"
	"testing"

	"tsmon/store/object"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		"s3://releases":                       "releases  https://s3.amazonaws.com ",
		"s3://releases/":                      "releases  https://s3.amazonaws.com ",
		"s3://releases/desktop":               "releases desktop/ https://s3.amazonaws.com ",
		"s3://releases/a/b/?region=eu-west-1": "releases a/b/ https://s3.amazonaws.com eu-west-1",
		"s3://releases/a%20b/%C3%B1?endpoint=http://127.0.0.1:9000":     "releases a b/ñ/ http://127.0.0.1:9000 us-east-1",
		"s3://releases?endpoint=https%3A%2F%2Fminio.example.com%2F":     "releases  https://minio.example.com us-east-1",
		"s3://my.bucket-1?endpoint=http://[::1]:9000&region=mars":       "my.bucket-1  http://[::1]:9000 mars",
		"s3://releases?endpoint=https://s3.eu-central-1.amazonaws.com":  "releases  https://s3.eu-central-1.amazonaws.com ",
		"S3://releases/x?endpoint=https://minio.example.com&region=":    "releases x/ https://minio.example.com us-east-1",
		"s3://releases/a+b?endpoint=https://minio.example.com:443":      "releases a+b/ https://minio.example.com:443 us-east-1",
		"s3://releases/%61?region=eu-west-1&endpoint=https://other.org": "releases a/ https://other.org eu-west-1",
	} {
		loc, err := parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := strings.Join([]string{loc.bucket, loc.prefix, loc.endpoint.String(), loc.region}, " "); got != want {
			t.Errorf("%s gives %q instead of %q", raw, got, want)
		}
	}
}

// badURLs hold hunter2 where a secret might stand.
var badURLs = []string{
	"", "releases", "/releases", "https://releases", "s3:releases", "s3:///releases", "s3://", "s3://a", "s3://UPPER",
	"s3://releases:9000/x", "s3://127.0.0.1/x", "s3://releases#hunter2", "s3://rel eases", "s3://releases/%zz",
	"s3://key:hunter2@releases/x", "s3://hunter2@releases", "s3://key:hunter2/x@releases", "s3://key:hunter2%zz@releases",
	"s3://releases/a//b", "s3://releases/../x", "s3://releases/.hidden", "s3://releases/a\\b", "s3://releases/a:b",
	"s3://releases/" + strings.Repeat("k", maxPrefix+1),
	"s3://releases?secret_key=hunter2", "s3://releases?hunter2=secret", "s3://releases?endpoint=hunter2", "s3://releases?%zz=hunter2",
	"s3://releases?endpoint=https://key:hunter2@host", "s3://releases?endpoint=ftp://host", "s3://releases?endpoint=https://",
	"s3://releases?endpoint=https://host/hunter2", "s3://releases?endpoint=https://host?hunter2", "s3://releases?endpoint=",
	"s3://releases?endpoint=https://a&endpoint=https://b", "s3://releases?region=a;hunter2=b", "s3://releases?endpoint=https://:9000",
	"s3://releases?endpoint=https://hunter2!0",
}

func TestParseBad(t *testing.T) {
	for _, raw := range badURLs {
		_, err := Open(raw, Limits{})
		if err == nil {
			t.Errorf("%s is accepted", raw)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats a secret: %v", raw, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range badURLs {
		f.Add(raw)
	}
	f.Add("s3://releases/a%20b/%C3%B1?endpoint=http://127.0.0.1:9000&region=us-east-1")
	f.Fuzz(func(t *testing.T, raw string) {
		loc, err := parse(raw)
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: the error repeats a secret: %v", raw, err)
			}
			return
		}
		if loc.endpoint.User != nil || loc.endpoint.Host == "" || loc.bucket == "" {
			t.Errorf("%q gives %+v", raw, loc)
		}
		if err := object.ValidKey(loc.path("key")); err != nil || len(loc.path(strings.Repeat("k", 900))) > 1024 {
			t.Errorf("%q gives the prefix %q: %v", raw, loc.prefix, err)
		}
		if _, err := Open(raw, Limits{}); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error repeats a secret: %v", raw, err)
		}
	})
}
