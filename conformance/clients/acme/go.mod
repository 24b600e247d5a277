module example.org/acme

go 1.25.0

require golang.org/x/crypto v0.49.0
