// Package s3 keeps objects in a bucket of MinIO, Amazon S3 or another server that
// implements their protocol and conditional writes.
//
// A URL names the store: s3://BUCKET/PREFIX?endpoint=…&region=…. Keys are appended to
// the prefix. Credentials are never part of the URL. They come from the first of these
// sources that has some: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, MINIO_ROOT_USER or
// MINIO_ACCESS_KEY and their counterparts, the files ~/.aws/credentials and
// ~/.mc/config.json, and the role of the machine or container unless
// AWS_EC2_METADATA_DISABLED is true. Errors contain no secrets, and only the error code
// of the server's answer.
//
// An object of up to object.StraightSize bytes is read into memory and sent in one
// conditional request. A larger one is sent in parts, two at a time; after the last part
// a conditional request completes the upload. Failed uploads are aborted; if that fails
// too, the bucket's rule for incomplete uploads removes their parts. A store holds at
// most four parts of 8 MiB in memory.
//
// Requests carry the CRC-64/NVME of their bytes, the completing one that of the whole
// object, which the server verifies. Afterwards the store compares the recorded size and
// checksum with those of the sent data; if the server records no checksum, it reads the
// object back.
package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"tsmon/store/object"
)

// Limits bound how long a store waits for its server. A zero field means the value beside it.
type Limits struct {
	Dial  time.Duration // to connect, 10 s
	Stall time.Duration // without a byte sent or received, 30 s
	Tries int           // of each request, 4
}

// Store is a prefix of a bucket: an object.Store, object.Presigner, object.Protector and
// object.Uploads.
type Store struct {
	location
	core     *minio.Core
	identity *identity
	wire     *transport
	parts    chan []byte // at most four buffers for parts
	seen     atomic.Bool // the bucket was there
}

var _ object.Store = (*Store)(nil)

// Open returns the store that a URL names. It makes no request, so a missing bucket is noticed
// later.
//
// The parameters of the URL are endpoint, by default https://s3.amazonaws.com, and
// region. The default region is the one that Amazon reports for the bucket, or
// us-east-1, MinIO's default, for any other server.
func Open(rawURL string, limits Limits) (*Store, error) {
	loc, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	s, err := openAt(loc, limits)
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	return s, nil
}

func openAt(loc location, limits Limits) (*Store, error) {
	limits = Limits{cmp.Or(limits.Dial, 10*time.Second), cmp.Or(limits.Stall, 30*time.Second), cmp.Or(limits.Tries, 4)}
	id, wire := newIdentity(), newTransport(limits)
	core, err := minio.NewCore(loc.endpoint.Host, &minio.Options{
		Creds:      credentials.New(id),
		Secure:     loc.endpoint.Scheme == "https",
		Region:     loc.region,
		Transport:  wire,
		MaxRetries: limits.Tries,
	})
	if err != nil {
		return nil, errors.New("the host of the endpoint is not usable") // err repeats it
	}
	s := &Store{location: loc, core: core, identity: id, wire: wire, parts: make(chan []byte, maxParts)}
	for range maxParts {
		s.parts <- nil
	}
	return s, nil
}

// identity looks up credentials. After a failure it waits a minute before the next attempt,
// since asking for the role of a machine that has none takes seconds.
type identity struct {
	credentials.Chain
	none  atomic.Bool
	asked time.Time
}

func newIdentity() *identity {
	places := []credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.FileMinioClient{},
	}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" {
		places = append(places, &credentials.IAM{Client: &http.Client{Timeout: 3 * time.Second}})
	}
	return &identity{Chain: credentials.Chain{Providers: places}}
}

func (i *identity) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	value, err := i.Chain.RetrieveWithCredContext(cc)
	i.none.Store(value.SignerType.IsAnonymous())
	i.asked = time.Now()
	return value, err
}

func (i *identity) IsExpired() bool {
	if i.none.Load() {
		return time.Since(i.asked) > time.Minute
	}
	return i.Chain.IsExpired()
}
