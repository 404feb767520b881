package s3

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"tsmon/store/object"
)

const maxPrefix = 100 // bytes: a key has 900, S3 takes 1024

// location is a parsed storage URL.
type location struct {
	bucket   string
	prefix   string // "" or with a closing slash
	endpoint *url.URL
	region   string
}

// place names the location for error messages.
func (l location) place() string {
	return fmt.Sprintf("bucket %s at %s", l.bucket, l.endpoint)
}

// path returns the name of a key in the bucket.
func (l location) path(key string) string { return l.prefix + key }

var errCredentials = errors.New("credentials don't belong there; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")

// parse parses a storage URL. Its errors quote nothing, since a misplaced part may be
// a secret.
func parse(raw string) (location, error) {
	u, err := url.Parse(raw)
	switch {
	case err == nil && u.User != nil:
		return location{}, errCredentials
	case err != nil || u.Scheme != "s3" || u.Opaque != "" || u.Fragment != "":
		return location{}, errors.New("it is not of the form s3://bucket/prefix?endpoint=https://host")
	case s3utils.CheckValidBucketNameStrict(u.Host) != nil || strings.Contains(u.Host, ":"):
		return location{}, errors.New("the part after s3:// is not a bucket name")
	}
	loc := location{bucket: u.Host}
	if loc.prefix, err = parsePrefix(u.Path); err != nil {
		return location{}, err
	}
	return loc, loc.parseQuery(u.RawQuery)
}

func parsePrefix(path string) (string, error) {
	prefix := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	switch {
	case prefix == "":
		return "", nil
	case object.ValidKey(prefix) != nil:
		return "", errors.New("the part after the bucket can't begin a key: no empty segment, none beginning with a dot, no backslash or colon")
	case len(prefix) > maxPrefix:
		return "", fmt.Errorf("the part after the bucket is longer than %d bytes", maxPrefix)
	}
	return prefix + "/", nil
}

func (l *location) parseQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("its parameters can't be parsed")
	}
	endpoint := "https://s3.amazonaws.com"
	for name, values := range query {
		if len(values) > 1 {
			return errors.New("it repeats a parameter")
		}
		switch name {
		case "endpoint":
			endpoint = values[0]
		case "region":
			l.region = values[0]
		default:
			return errors.New("it has a parameter besides endpoint and region; credentials in particular don't belong there")
		}
	}
	if l.endpoint, err = parseEndpoint(endpoint); err != nil {
		return err
	}
	if l.region == "" && !s3utils.IsAmazonEndpoint(*l.endpoint) {
		l.region = "us-east-1"
	}
	return nil
}

func parseEndpoint(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err == nil && u.User != nil:
		return nil, errCredentials
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the endpoint is not of the form https://host or http://host:port")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint has something after its host")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
