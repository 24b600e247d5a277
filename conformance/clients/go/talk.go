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

// client goes on, as servers do: it keeps its context and its key. After an error it says which, and with the next
// search it begins anew.
type client struct {
	label   string
	context *crypto11.Context
	key     crypto11.Signer
}

// talk looks for the key or signs, as each line says.
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
			// The sessions may be of a token that is no more: closing them is tried, and that is all.
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
