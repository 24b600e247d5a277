# The cases of name constraints in the tests of Go's verifier. Whatever the tool signs below these constraints, OpenSSL,
# GnuTLS and Go accept. The tool refuses more: invalid names and constraints, and below a CA with --permit the names of
# the types that no --permit mentions.
cases=$(go env GOROOT)/src/crypto/x509/name_constraints_test.go
[ -e "$cases" ] || { echo "no $cases"; exit; }
mkdir -p cases certificates checks
{
    printf 'package main\nimport (\n"fmt"\n"strings"\n. "crypto/x509"\n)\n'
    sed -n '/^type nameConstraintsTest /,/^func /p' "$cases" | sed '$d'
    cat <<'END_OF_GO'
// A line for each case with one certificate for each level and without other restrictions: its number, whether it is
// valid, the names, and the permitted and excluded names of each level.
func main() {
	for number, test := range nameConstraintsTests {
		levels := []string{}
		plain := len(test.leaf.ekus) == 0 && len(test.requestedEKUs) == 0
		for _, level := range append([][]constraintsSpec{test.roots}, test.intermediates...) {
			plain = plain && len(level) == 1 && len(level[0].ekus) == 0
			levels = append(levels, strings.Join(level[0].ok, " ")+"|"+strings.Join(level[0].bad, " "))
		}
		if plain {
			fmt.Printf("%d;%v;%s;%s\n", number, test.expectedError == "", strings.Join(test.leaf.sans, " "), strings.Join(levels, ";"))
		}
	}
}
END_OF_GO
} > cases/main.go
go run cases/main.go > list
[ "$(wc -l < list)" -gt 40 ]
go build -o verify $SCRIPTS/verify.go

jeton token init --label ca
for label in root 1 2 3 leaf; do
    jeton key generate --type ec:p256 --label $label
    jeton csr --label $label --class private --subject "CN=CA $label" --out $label.csr
done
jeton cert self-sign --label root --subject CN=Root --ca --days 9000 --out root.pem
cat > any.toml <<'END_OF_TOML'
[any]
days = 90
most-days = { "2020-01-01" = 398 }
usages = ["digital-signature"]
extended = ["server-auth", "client-auth"]
names = ["dns", "ip", "email", "uri"]
END_OF_TOML
signs() { # the names of a case, and the levels of its CAs
    local parent=root level=0 permitted excluded name options
    rm -f issued.sqlite chain.pem
    jeton ca init --label root --ca-cert root.pem
    for constraints in "${@:2}"; do
        options=()
        IFS='|' read -r permitted excluded <<< "$constraints"
        for name in $permitted; do options+=(--permit $name); done
        for name in $excluded; do options+=(--exclude $name); done
        level=$((level + 1))
        jeton cert issue $level.csr --label $parent --ca-cert $parent.pem --profile sub-ca --path-length $((4 - level)) \
            "${options[@]}" --out $level.pem --force || return 1
        jeton ca init --label $level --ca-cert $level.pem --chain root.pem
        parent=$level
    done
    options=()
    for name in $1; do options+=(--san $name); done
    jeton cert issue leaf.csr --label $parent --ca-cert $parent.pem --profiles any.toml --profile any --subject O=Leaf \
        "${options[@]}" --chain --out certificates/$number.pem
}
while IFS=';' read -r number expected names levels; do
    IFS=';' read -ra levels <<< "$levels;"
    if signs "$names" "${levels[@]}" > checks/$number < /dev/null 2>&1; then
        result=signed
        openssl verify -x509_strict -CAfile root.pem -untrusted certificates/$number.pem certificates/$number.pem || result=wrong
        certtool --verify --load-ca-certificate root.pem --infile certificates/$number.pem | grep 'Chain.*: Verified' || result=wrong
        if [ $expected = false ]; then result=wrong; fi
    else
        result=refused
    fi
    echo "$result, valid: $expected" >> results
    if [ $result = wrong ]; then echo "case $number: $names, ${levels[*]}"; fi
done < list
sort results | uniq -c
[ "$(grep -c '^signed, valid: true' results)" -ge 25 ]
./verify $(date +%s) > go
[ "$(wc -l < go)" = "$(ls certificates | wc -l)" ]
fails 1 grep -v ' good$' go
fails 1 grep wrong results
