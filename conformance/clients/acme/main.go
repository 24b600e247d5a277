// An ACME client (RFC 8555): acme DIRECTORY CA-FILE HTTP-PORT COUNT [CLIENTS]
//
// It asks the CA for COUNT certificates of localhost, answers each http-01 challenge from HTTP-PORT of the loopback
// interface, and verifies each certificate. CLIENTS accounts (default: 1) order at the same time. One account alone also
// asks the CA to revoke the last certificate. It prints certificates per second and the latency from the order to the
// verified certificate.
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
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

// issued is a certificate with its times.
type issued struct {
	der             []byte
	total, finalize time.Duration
}

func main() {
	directory, caFile, port := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	clients := 1
	if len(os.Args) > 5 {
		clients, err = strconv.Atoi(os.Args[5])
		check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	roots := x509.NewCertPool()
	pem, err := os.ReadFile(caFile)
	check(err)
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: clients}
	web := &http.Client{Transport: transport}

	// The answer to the challenge with each token.
	var answers sync.Map
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if answer, found := answers.Load(path.Base(request.URL.Path)); found {
			fmt.Fprint(w, answer)
		}
	}))

	accounts := make([]*acme.Client, clients)
	for i := range accounts {
		accounts[i] = &acme.Client{Key: key(), DirectoryURL: directory, HTTPClient: web}
		_, err = accounts[i].Register(ctx, &acme.Account{}, acme.AcceptTOS)
		check(err)
	}

	var next atomic.Int64
	var group sync.WaitGroup
	all := make([]issued, count)
	start := time.Now()
	for _, account := range accounts {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				all[i] = certificate(ctx, account, &answers, roots)
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(start)
	// An account may revoke only its own certificates. With one client the account has all of them.
	if clients == 1 {
		check(accounts[0].RevokeCert(ctx, nil, all[count-1].der, acme.CRLReasonSuperseded))
		fmt.Printf("%d certificates issued, the last one revoked\n", count)
	}
	report(all, elapsed, clients)
}

// report prints the rate and the latencies.
func report(all []issued, elapsed time.Duration, clients int) {
	var sum, finalize time.Duration
	for _, one := range all {
		sum += one.total
		finalize += one.finalize
	}
	slices.SortFunc(all, func(a, b issued) int { return int(a.total - b.total) })
	percentile := func(part int) float64 {
		return milliseconds(all[min(len(all)*part/100, len(all)-1)].total)
	}
	count := time.Duration(len(all))
	fmt.Printf("%d clients: %.1f certificates per second; latency mean %.1f ms, p50 %.1f, p95 %.1f, p99 %.1f; finalize %.1f ms\n",
		clients, float64(len(all))/elapsed.Seconds(), milliseconds(sum/count), percentile(50), percentile(95), percentile(99),
		milliseconds(finalize/count))
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Microseconds()) / 1000
}

// certificate orders a certificate and verifies it.
func certificate(ctx context.Context, client *acme.Client, answers *sync.Map, roots *x509.CertPool) issued {
	start := time.Now()
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
			answers.Store(challenge.Token, said)
			_, err = client.Accept(ctx, challenge)
			check(err)
		}
		_, err = client.WaitAuthorization(ctx, url)
		check(err)
	}
	ready := time.Now()
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"localhost"}}, key())
	check(err)
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	check(err)
	finalize := time.Since(ready)
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
	return issued{chain[0], time.Since(start), finalize}
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
