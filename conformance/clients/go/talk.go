package main

import (
	"bufio"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"github.com/ThalesGroup/crypto11"
)

var errNoKey = errors.New("no such key")

// client keeps its context and its key, as a server does. After an error it prints the error. The next search opens a
// new context.
type client struct {
	label   string
	context *crypto11.Context
	key     crypto11.Signer
}

// talk looks for the key or signs, as each line of input asks.
func talk(label string) {
	one := client{label: label}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		work, done := one.sign, "signed"
		if lines.Text() == "find" {
			work, done = one.find, "found"
		}
		err := work()
		if err == nil {
			fmt.Println(done)
			continue
		}
		fmt.Println(err)
		if one.context != nil {
			// The sessions may belong to a token that no longer exists, so an error is ignored.
			_ = one.context.Close()
		}
		one.context, one.key = nil, nil
	}
}

func (one *client) find() (err error) {
	if one.context == nil {
		one.context, err = crypto11.Configure(&crypto11.Config{
			Path: os.Getenv("MODULE"), TokenLabel: os.Getenv("TOKEN"), Pin: os.Getenv("PIN"),
		})
		if err != nil {
			one.context = nil
			return err
		}
	}
	one.key, err = one.context.FindKeyPair(nil, []byte(one.label))
	if err == nil && one.key == nil {
		err = errNoKey
	}
	return err
}

func (one *client) sign() error {
	if one.key == nil {
		return errNoKey
	}
	digest := sha256.Sum256([]byte("a message"))
	_, err := one.key.Sign(rand.Reader, digest[:], crypto.SHA256)
	return err
}
