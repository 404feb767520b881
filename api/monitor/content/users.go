package content

import (
	"encoding/hex"

	"tsmon/store/record"
)

// Owned is what a tenant owns.
type Owned struct {
	record.Content
	Users Users `json:"users,omitempty"`
}

// Users are users of a file.
type Users []User

// User is a user of a file, who logs in with the same partner token wherever the file is
// imported.
type User struct {
	ID          int64  `json:"id"`
	Email       string `json:"email"`
	Profile     int64  `json:"profile"` // 0 for none
	Admin       bool   `json:"admin"`
	Disabled    bool   `json:"disabled"`
	TokenDigest Digest `json:"token_digest,omitempty"` // nil if there is no token
}

// Digest is the SHA-256 of a partner token, hexadecimal in a file. The token is random and
// can't be derived from it.
type Digest []byte

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = hex.AppendDecode(nil, text)
	return err
}

// UsersOf returns stored users as those of a file.
func UsersOf(users []record.User) Users {
	list := make(Users, len(users))
	for i, u := range users {
		list[i] = User{u.ID, u.Email, u.Profile, u.Admin, u.Disabled, u.TokenDigest}
	}
	return list
}

// Records returns the users as they are stored.
func (list Users) Records() []record.User {
	users := make([]record.User, len(list))
	for i, u := range list {
		users[i] = record.User{ID: u.ID, Email: u.Email, Profile: u.Profile, Admin: u.Admin, Disabled: u.Disabled, TokenDigest: u.TokenDigest}
	}
	return users
}
