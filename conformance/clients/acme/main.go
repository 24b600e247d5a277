// An ACME client (RFC 8555): acme DIRECTORY CA-FILE HTTP-PORT COUNT
//
// It asks the CA for COUNT certificates of localhost one after the other, answers each http-01 challenge from HTTP-PORT
// of the loopback interface, verifies each certificate, and asks the CA to revoke the last one.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

func main() {
	directory, caFile, port := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	roots := x509.NewCertPool()
	pem, err := os.ReadFile(caFile)
	check(err)
	roots.AppendCertsFromPEM(pem)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	client := &acme.Client{Key: key(), DirectoryURL: directory, HTTPClient: web}
	_, err = client.Register(ctx, &acme.Account{}, acme.AcceptTOS)
	check(err)

	var answer atomic.Value
	answer.Store("")
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, answer.Load())
	}))

	var last []byte
	for range count {
		last = certificate(ctx, client, &answer, roots)
	}
	check(client.RevokeCert(ctx, nil, last, acme.CRLReasonSuperseded))
	fmt.Printf("%d certificates issued, the last one revoked\n", count)
}

// certificate orders a certificate and verifies it.
func certificate(ctx context.Context, client *acme.Client, answer *atomic.Value, roots *x509.CertPool) []byte {
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs("localhost"))
	check(err)
	for _, url := range order.AuthzURLs {
		authorization, err := client.GetAuthorization(ctx, url)
		check(err)
		for _, challenge := range authorization.Challenges {
			if challenge.Type != "http-01" || challenge.Status != acme.StatusPending {
				continue
			}
			said, err := client.HTTP01ChallengeResponse(challenge.Token)
			check(err)
			answer.Store(said)
			_, err = client.Accept(ctx, challenge)
			check(err)
		}
		_, err = client.WaitAuthorization(ctx, url)
		check(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"localhost"}}, key())
	check(err)
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	check(err)
	leaf, err := x509.ParseCertificate(chain[0])
	check(err)
	between := x509.NewCertPool()
	for _, der := range chain[1:] {
		ca, err := x509.ParseCertificate(der)
		check(err)
		between.AddCert(ca)
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: roots, Intermediates: between})
	check(err)
	return chain[0]
}

func key() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	return key
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
