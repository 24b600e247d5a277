// Prints for each file of certificates/ its name, and good, revoked or expired, at this second since 1970. The first
// certificate of a file is the one in question, the others are of the CAs below root.pem. If there is a file crls.pem, it
// has the CRLs of all CAs.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func blocks(path string) (all [][]byte) {
	bytes, err := os.ReadFile(path)
	for err == nil {
		var block *pem.Block
		if block, bytes = pem.Decode(bytes); block == nil {
			return all
		}
		all = append(all, block.Bytes)
	}
	panic(err)
}

func certificates(path string) (all []*x509.Certificate) {
	for _, der := range blocks(path) {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			panic(path + ": " + err.Error())
		}
		all = append(all, certificate)
	}
	return all
}

func parsed(path string) (all []*x509.RevocationList) {
	for _, der := range blocks(path) {
		crl, err := x509.ParseRevocationList(der)
		if err != nil {
			panic(err)
		}
		all = append(all, crl)
	}
	return all
}

// Returns whether the CRL of the issuer, which must be valid now, has the certificate.
func revoked(certificate, issuer *x509.Certificate, crls []*x509.RevocationList, now time.Time) bool {
	for _, crl := range crls {
		if crl.CheckSignatureFrom(issuer) != nil || now.Before(crl.ThisUpdate) || now.After(crl.NextUpdate) {
			continue
		}
		for _, one := range crl.RevokedCertificates {
			if one.SerialNumber.Cmp(certificate.SerialNumber) == 0 {
				return true
			}
		}
		return false
	}
	panic("no valid CRL of " + issuer.Subject.String())
}

func status(chain []*x509.Certificate, options x509.VerifyOptions, crls []*x509.RevocationList) string {
	for _, issuer := range chain[1:] {
		options.Intermediates.AddCert(issuer)
	}
	paths, err := chain[0].Verify(options)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return "expired"
	} else if err != nil {
		return err.Error()
	}
	path := paths[0]
	for at := 0; len(crls) > 0 && at+1 < len(path); at++ {
		if revoked(path[at], path[at+1], crls, options.CurrentTime) {
			return "revoked"
		}
	}
	return "good"
}

func main() {
	seconds, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		panic(err)
	}
	var crls []*x509.RevocationList
	lists, _ := filepath.Glob("crls.pem")
	for _, list := range lists {
		crls = append(crls, parsed(list)...)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificates("root.pem")[0])
	files, _ := filepath.Glob("certificates/*.pem")
	for _, file := range files {
		options := x509.VerifyOptions{
			Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: time.Unix(seconds, 0),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}
		name := strings.TrimSuffix(filepath.Base(file), ".pem")
		fmt.Println(name, status(certificates(file), options, crls))
	}
}
