// Package s3 keeps objects in a bucket of MinIO, Amazon S3 or another server
// that speaks their protocol and honours conditional writes.
//
// A store is named by a URL, s3://BUCKET/PREFIX?endpoint=…&region=…; the key of
// the contract is appended to the prefix. Credentials never stand in the URL.
// They are taken from the first place that has some: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, MINIO_ROOT_USER or MINIO_ACCESS_KEY and their
// counterparts, the files ~/.aws/credentials and ~/.mc/config.json, the role of
// the machine or container unless AWS_EC2_METADATA_DISABLED is true. No error text holds a secret, nor anything that the
// server said besides its error code.
//
// An object of up to object.StraightSize bytes is read into memory and sent in
// one conditional request, so that the store alone decides who was first. A
// larger one is sent in parts, by two senders an object; its condition goes with
// the request that completes the upload, which is sent only after the reader has
// ended well. A failed upload is aborted. Where even that fails its parts are
// left to the bucket's own rule for incomplete uploads.
//
// Every request carries the CRC-64/NVME of its bytes, and the completing one
// that of the whole object; the server refuses what does not match. Afterwards
// the object's size and checksum are asked for and compared with what was sent.
// A server that records no such checksum has its objects read back.
//
// However many uploads run side by side, a store holds at most four parts of
// 8 MiB in memory, besides the small objects.
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

// Limits bound how long a store waits for its server. A zero field stands for
// the value named beside it.
type Limits struct {
	Dial  time.Duration // to connect, 10 s
	Stall time.Duration // without a byte sent or received, 30 s
	Tries int           // of each request, 4
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Dial:  cmp.Or(l.Dial, 10*time.Second),
		Stall: cmp.Or(l.Stall, 30*time.Second),
		Tries: cmp.Or(l.Tries, 4),
	}
}

// Store is a prefix of a bucket. Its methods may be called concurrently.
type Store struct {
	location
	core     *minio.Core
	identity *identity
	parts    chan []byte // at most four buffers for parts
	seen     atomic.Bool // the bucket was there
}

var _ object.Store = (*Store)(nil)

// Open returns the store that a URL names. It makes no request: whether the
// bucket is there shows with the first one.
//
// The parameters of the URL are endpoint, by default https://s3.amazonaws.com,
// and region. Without a region Amazon is asked for that of the bucket; any
// other server is taken to be us-east-1, as MinIO is unless told otherwise.
func Open(rawURL string, limits Limits) (*Store, error) {
	loc, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	s, err := openAt(loc, limits.orDefaults())
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	return s, nil
}

func openAt(loc location, limits Limits) (*Store, error) {
	id := newIdentity()
	core, err := minio.NewCore(loc.endpoint.Host, &minio.Options{
		Creds:      credentials.New(id),
		Secure:     loc.endpoint.Scheme == "https",
		Region:     loc.region,
		Transport:  newTransport(limits),
		MaxRetries: limits.Tries,
	})
	if err != nil {
		return nil, errors.New("the host of the endpoint is not usable") // err repeats it
	}
	s := &Store{location: loc, core: core, identity: id, parts: make(chan []byte, maxParts)}
	for range maxParts {
		s.parts <- nil
	}
	return s, nil
}

// identity looks for credentials. Having found none it does not look again for
// a minute, since asking for the role of a machine that has none takes seconds.
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

// RetrieveWithCredContext implements credentials.Provider.
func (i *identity) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	value, err := i.Chain.RetrieveWithCredContext(cc)
	i.none.Store(value.SignerType.IsAnonymous())
	i.asked = time.Now()
	return value, err
}

// IsExpired implements credentials.Provider.
func (i *identity) IsExpired() bool {
	if i.none.Load() {
		return time.Since(i.asked) > time.Minute
	}
	return i.Chain.IsExpired()
}
