module example.org/desk

go 1.23.6

require (
	github.com/ThalesGroup/crypto11 v1.4.1
	github.com/miekg/pkcs11 v1.1.1
)

require (
	github.com/pkg/errors v0.9.1 // indirect
	github.com/thales-e-security/pool v0.0.2 // indirect
)
