// Uses keys of a token from Go. github.com/miekg/pkcs11 calls the functions of PKCS#11. github.com/ThalesGroup/crypto11
// offers the keys through the interfaces of package crypto, here to a TLS server.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ThalesGroup/crypto11"
	"github.com/miekg/pkcs11"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "talk" {
		talk(os.Args[2])
		return
	}
	functions()
	keys()
	fmt.Println("all right")
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// functions makes a key pair with the functions of PKCS#11, signs and verifies.
func functions() {
	module := pkcs11.New(os.Getenv("MODULE"))
	check(module.Initialize())
	defer module.Finalize()
	var slot uint
	for _, candidate := range must(module.GetSlotList(true)) {
		if strings.TrimSpace(must(module.GetTokenInfo(candidate)).Label) == os.Getenv("TOKEN") {
			slot = candidate
		}
	}
	session := must(module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION))
	check(module.Login(session, pkcs11.CKU_USER, os.Getenv("PIN")))
	public, private, err := module.GenerateKeyPair(session,
		[]*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN, nil)},
		[]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_MODULUS_BITS, 2048),
			pkcs11.NewAttribute(pkcs11.CKA_PUBLIC_EXPONENT, []byte{1, 0, 1}), pkcs11.NewAttribute(pkcs11.CKA_VERIFY, true)},
		[]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_SIGN, true)})
	check(err)
	mechanism := []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_SHA256_RSA_PKCS, nil)}
	check(module.SignInit(session, mechanism, private))
	signature := must(module.Sign(session, []byte("a message")))
	check(module.VerifyInit(session, mechanism, public))
	check(module.Verify(session, []byte("a message"), signature))
	check(module.Logout(session))
	check(module.CloseSession(session))
}

// keys uses keys of crypto11: it signs from many goroutines, verifies with package crypto, and runs TLS.
func keys() {
	context := must(crypto11.Configure(&crypto11.Config{
		Path: os.Getenv("MODULE"), TokenLabel: os.Getenv("TOKEN"), Pin: os.Getenv("PIN"),
	}))
	defer context.Close()
	must(context.GenerateECDSAKeyPairWithLabel([]byte{1}, []byte("go"), elliptic.P256()))
	signer := must(context.FindKeyPair([]byte{1}, nil))
	other := must(context.GenerateRSAKeyPair([]byte{2}, 2048))
	digest := sha256.Sum256([]byte("a message"))
	var group sync.WaitGroup
	for range make([]struct{}, 16) {
		group.Add(1)
		go func() {
			defer group.Done()
			signature := must(signer.Sign(rand.Reader, digest[:], crypto.SHA256))
			if !ecdsa.VerifyASN1(signer.Public().(*ecdsa.PublicKey), digest[:], signature) {
				log.Fatal("a wrong signature")
			}
			signature = must(other.Sign(rand.Reader, digest[:], crypto.SHA256))
			check(rsa.VerifyPKCS1v15(other.Public().(*rsa.PublicKey), crypto.SHA256, digest[:], signature))
		}()
	}
	group.Wait()
	serve(signer)
	serve(other)
	check(signer.Delete())
}

// serve makes a certificate of the key, starts a TLS server with it, and connects to the server.
func serve(signer crypto11.Signer) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer))
	roots := x509.NewCertPool()
	roots.AddCert(must(x509.ParseCertificate(der)))
	here, there := net.Pipe()
	go func() {
		certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
		server := tls.Server(here, &tls.Config{Certificates: []tls.Certificate{certificate}})
		must(io.WriteString(server, "from a key of the token"))
		check(server.Close())
	}()
	client := tls.Client(there, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if said := must(io.ReadAll(client)); string(said) != "from a key of the token" {
		log.Fatalf("the server said %q", said)
	}
}
