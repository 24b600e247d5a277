//! A two-tier CA with the tool alone: `ca`, `cert issue`, `cert revoke`, `crl` and `ocsp`. OpenSSL
//! accepts its certificates, CRLs and responses.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Tool, fails, has};

const CA: &str = "--token online --label issuing";

/// A root in a token of its own, an issuing CA, two servers and a signer of OCSP responses. The
/// second server is revoked. Returns `None` if the module or OpenSSL is missing.
fn two_tiers(kind: &str) -> Option<Tool> {
    let tool = Tool::empty()?;
    if !has("openssl") {
        return None;
    }
    let request = |label: &str, subject: &str, more: &str| {
        tool.ok(&format!("key generate --token online --type {kind} --label {label}"));
        tool.ok(&format!("csr --token online --label {label} --subject {subject} {more} --out {label}.csr"));
    };
    tool.ok("token init --label root");
    tool.ok("token init --label online");
    tool.ok(&format!("key generate --token root --type {kind} --label root"));
    tool.ok(
        "cert self-sign --token root --label root --subject CN=Root --ca --days 3650 --import --out root.pem",
    );
    tool.ok("ca init --token root --label root");
    request("issuing", "CN=Issuing", "");
    tool.ok("cert issue issuing.csr --token root --label root --profile sub-ca --permit dns:example.org --out issuing.pem");
    tool.ok("cert import issuing.pem --token online --label issuing");
    tool.ok(&format!("ca init {CA}"));
    for label in ["www", "old"] {
        request(label, &format!("CN={label}"), &format!("--san dns:{label}.example.org"));
        tool.ok(&format!("cert issue {label}.csr {CA} --profile tls-server --out {label}.pem"));
    }
    request("ocsp", "CN=Responder", "");
    tool.ok(&format!("cert issue ocsp.csr {CA} --profile ocsp-signer --out ocsp.pem"));
    tool.ok(&format!("cert revoke {} --reason key-compromise", serial(&tool, "CN=old")));
    tool.ok(&format!("crl {CA} --out issuing.crl"));
    tool.ok("crl --token root --label root --out root.crl");
    Some(tool)
}

fn serial(tool: &Tool, subject: &str) -> String {
    let rows = tool.rows("cert issued --json");
    let row = rows.iter().find(|row| row["subject"] == subject).expect("it was issued");
    row["serial"].as_str().expect("text").to_owned()
}

/// OpenSSL checks the chain with the CRLs of both CAs, and the answers of the CA, of its delegated
/// signer and of the responder.
fn openssl_accepts(kind: &str) {
    let Some(tool) = two_tiers(kind) else { return };
    tool.shell(
        "cat issuing.crl root.crl > crls.pem
         verify='openssl verify -x509_strict -crl_check_all -CRLfile crls.pem -CAfile root.pem -untrusted issuing.pem'
         $verify www.pem
         if $verify old.pem; then exit 1; fi
         openssl crl -in issuing.crl -CAfile issuing.pem -noout -text > text
         grep -A1 'CRL Number' text | grep -w 1
         grep 'Key Compromise' text
         openssl ocsp -no_nonce -issuer issuing.pem -cert www.pem -cert old.pem -reqout request",
    );
    tool.ok(&format!("ocsp request {CA} --out own"));
    tool.ok("ocsp request --token online --label ocsp --ca-cert issuing.pem --signer-cert ocsp.pem --out delegated");
    let check = "-issuer issuing.pem -cert www.pem -CAfile root.pem -verify_other issuing.pem";
    for response in ["own", "delegated"] {
        let text = tool.shell(&format!("openssl ocsp -respin {response} {check} -cert old.pem 2>&1"));
        let expected = ["Response verify OK", "www.pem: good", "old.pem: revoked", "Reason: keyCompromise"];
        assert!(expected.iter().all(|line| text.contains(line)), "{text}");
    }
    let mut responder = tool.command(&format!("ocsp --listen 127.0.0.1:0 {CA}"));
    let mut responder = responder.stdout(Stdio::piped()).spawn().expect("the tool");
    let mut url = String::new();
    BufReader::new(responder.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
    let address = url.trim().strip_prefix("http://").expect("a URL");
    // Requests that are refused. The responder goes on afterwards.
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n".to_owned(), "413"),
        ("\0\r\n\r\n".to_owned(), "400"),
        (format!("{:y<65535}y", "POST / HTTP/1.1\r\nx: "), "431"),
    ] {
        let mut client = TcpStream::connect(address).expect("the responder");
        client.write_all(request.as_bytes()).expect("the responder reads it");
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{request:.60}");
    }
    let text = tool.shell(&format!("openssl ocsp -url {} {check} 2>&1", url.trim()));
    responder.kill().and_then(|()| responder.wait()).expect("the responder");
    assert!(text.contains("Response verify OK") && text.contains("www.pem: good"), "{text}");
}

#[test]
fn openssl_accepts_a_ca_with_p256() {
    openssl_accepts("ec:p256");
}

#[test]
fn openssl_accepts_a_ca_with_rsa_3072() {
    openssl_accepts("rsa:3072");
}

/// OpenSSL verifies ML-DSA from version 3.5 on. An older one splits the structures, and the module
/// verifies the signatures.
#[test]
fn the_signatures_of_a_ca_with_ml_dsa_65_are_valid() {
    let is_new =
        |version: &str| version.contains(" 3.5") || version.contains(" 3.6") || version.contains(" 4.");
    let version =
        Command::new("openssl").arg("version").output().map(|output| output.stdout).unwrap_or_default();
    if is_new(&String::from_utf8_lossy(&version)) {
        return openssl_accepts("ml-dsa-65");
    }
    let Some(tool) = two_tiers("ml-dsa-65") else { return };
    let signed = [("www.pem", CA), ("issuing.crl", CA), ("issuing.pem", "--token root --label root")];
    for (file, key) in signed {
        // The signed part is the first element of the outer SEQUENCE. The signature is the last
        // element, after a byte with the number of unused bits.
        tool.shell(&format!(
            "openssl asn1parse -in {file} -noout -out der
             openssl asn1parse -inform DER -in der -strparse 4 -noout -out message
             tail -c 3309 der > signature"
        ));
        tool.ok(&format!("verify message {key} --class public --signature signature"));
    }
}

#[test]
fn requests_beyond_the_profile_or_the_ca_are_refused() {
    let Some(tool) = two_tiers("ec:p256") else { return };
    tool.shell(
        "openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /CN=x -addext basicConstraints=CA:TRUE \
           -addext subjectAltName=DNS:x.example.org -out ca.csr
         openssl req -new -key key -subj /CN=x -addext subjectAltName=DNS:x.other.test -out other.csr
         openssl req -new -key key -subj /CN=x -sha384 -addext subjectAltName=DNS:x.example.org -out good.csr
         openssl req -in good.csr -outform DER -out good.der
         # The first byte of the name x.example.org becomes y.
         sed 's/x\\.example/y.example/' good.der > changed.der
         openssl req -new -key key -subj /CN=Issuing -addext subjectAltName=DNS:x.example.org -out own.csr
         openssl req -new -key key -subj /CN=x -addext subjectAltName=DNS:x.example.org,IP:10.0.0.1 -out ip.csr
         openssl req -new -key key -subj /CN=www.evil.test -addext subjectAltName=DNS:x.example.org -out cn.csr
         openssl req -new -key key -subj /CN=x -addext 'subjectAltName=DNS:*' -out any.csr
         openssl req -new -newkey rsa:1024 -noenc -keyout short -subj /CN=x \
           -addext subjectAltName=DNS:x.example.org -out short.csr",
    );
    let issue = |request: &str, more: &str| format!("cert issue {request} {CA} {more}");
    tool.write(
        "own.toml",
        "[own]\ndays = 3\nmost-days = { \"2020-01-01\" = 7 }\nusages = [\"key-agreement\"]\npolicies = [\"1.2.3.4\"]
         issuer-url = \"http://a.example/ca\"\nextended = [\"1.2.3.5\"]
         [strict]\ndays = 3\nmost-days = { \"2020-01-01\" = 7 }\nusages = []\nbeyond = \"refuse\"\n",
    );
    for (request, more, reason) in [
        ("ca.csr", "--profile tls-server", "asks for the certificate of a CA"),
        ("other.csr", "--profile tls-server", "name constraints"),
        ("ip.csr", "--profile tls-server", "name constraints of CN=Issuing exclude ip:10.0.0.1"),
        ("cn.csr", "--profile tls-server", "name constraints of CN=Issuing exclude dns:www.evil.test"),
        ("any.csr", "--profile tls-server", "dns:* is not a valid name"),
        ("own.csr", "--profile tls-server", "the subject of the CA itself"),
        ("short.csr", "--profile tls-server", "an RSA key of 1024 bits"),
        ("changed.der", "--profile tls-server", "signature of the request is not valid"),
        ("good.csr", "--profile code-signing", "no keys of the type rsa:2048"),
        ("good.csr", "--profile tls-server --days 399", "at most "),
        ("good.csr", "--profile strict --profiles own.toml", "asks for the name dns:x.example.org"),
        ("good.csr", "--profile own --profiles own.toml --days 8", "at most 7 days"),
        ("good.csr", "--profile tls-client --san ip:127.0.0.1", "no names of the type ip"),
        ("issuing.csr", "--profile tls-server", "needs a name"),
        ("issuing.csr", "--profile sub-ca --subject CN=Below", "allows 0 CAs below it"),
        ("good.csr", "--profile tls-server --permit dns:a", "only the profile sub-ca"),
    ] {
        let text = tool.fails(7, &issue(request, more));
        assert!(text.contains(reason), "{request} {more}: {text}");
    }
    let before = tool.rows("cert issued --json").len();
    tool.ok(&issue("good.csr", "--profile tls-server"));
    assert_eq!(tool.rows("cert issued --json").len(), before + 1);
}

/// The request of OpenSSL's own configuration, and requests of other programs: what the profile does
/// not have is left out, and the list says so.
#[test]
fn what_a_request_asks_beyond_the_profile_is_left_out() {
    let Some(tool) = one_tier() else { return };
    if !has("openssl") {
        return;
    }
    tool.shell(
        "openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /C=AU/O=x/emailAddress=a@example.org \
           -addext keyUsage=nonRepudiation,digitalSignature,keyEncipherment -addext basicConstraints=CA:FALSE \
           -addext subjectAltName=DNS:w.example.org,email:a@example.org -out default.csr
         openssl req -new -key key -subj /CN=v3 -reqexts v3_req -out v3.csr
         openssl req -new -key key -subj /CN=peer -addext extendedKeyUsage=serverAuth,clientAuth \
           -addext subjectAltName=DNS:p.example.org -out peer.csr",
    );
    let issue = |request: &str, more: &str| format!("cert issue {request}.csr --label ca {more} --json");
    let text = tool.ok(&issue("default", "--profile tls-server --out default.pem"));
    assert!(text.contains("content-commitment; the name email:a@example.org"), "{text}");
    let text = tool.shell("openssl x509 -in default.pem -noout -text");
    assert!(text.contains("Digital Signature, Key Encipherment\n") && !text.contains("email:"), "{text}");
    tool.ok(&issue("v3", "--profile tls-server --san dns:v.example.org"));
    assert!(tool.ok(&issue("peer", "--profile tls-server")).contains("1.3.6.1.5.5.7.3.2"));
    // OpenSSL accepts each profile for its purpose.
    for (profile, more, purpose) in [
        ("tls-peer", "", "sslserver"),
        ("tls-peer", "--force", "sslclient"),
        ("email", "--san email:a@example.org", "smimesign"),
        ("timestamping", "--subject CN=TSA", "timestampsign"),
        ("kerberos-client", "--san upn:a@EXAMPLE.ORG", "any"),
        ("kerberos-kdc", "", "any"),
    ] {
        let request = if profile == "timestamping" { "key" } else { "peer" };
        tool.ok(&issue(request, &format!("--profile {profile} {more} --out {profile}.pem")));
        tool.shell(&format!("openssl verify -x509_strict -purpose {purpose} -CAfile ca.pem {profile}.pem"));
    }
    tool.ok(&issue("key", "--profile code-signing --out code.pem"));
    assert!(tool.shell("openssl x509 -in code.pem -noout -text").contains("Code Signing"));
    // A profile of the operator, and the built-in ones as such a file.
    tool.ok("ca profiles --out profiles.toml");
    tool.shell("sed -i 's/^usages = .*/policies = [\"1.2.3.4\"]\\n&/' profiles.toml");
    tool.ok(&issue("peer", "--profile tls-server --profiles profiles.toml --out policy.pem"));
    assert!(tool.shell("openssl x509 -in policy.pem -noout -text").contains("Policy: 1.2.3.4"));
    tool.fails(2, &issue("peer", "--profile tls-serve"));
}

#[test]
fn a_renewed_certificate_has_the_names_of_the_old_one() {
    let Some(tool) = two_tiers("ec:p256") else { return };
    tool.ok(&format!("cert renew www.example.org {CA} --days 9 --chain --out chain.pem"));
    tool.shell(
        "grep -c BEGIN chain.pem | grep -x 2
         openssl verify -CAfile root.pem -untrusted chain.pem chain.pem
         openssl x509 -in chain.pem -noout -ext subjectAltName | grep DNS:www.example.org",
    );
    assert_eq!(fails(1, &mut tool.command("cert revoke www.example.org")).matches(", ").count(), 1);
    // A new key, and the certificate of a CA with its constraints.
    tool.ok("key generate --token online --type ec:p256 --label new");
    tool.ok("csr --token online --label new --subject CN=x --out new.csr");
    tool.ok(&format!("cert renew www.pem {CA} --request new.csr --out new.pem"));
    tool.ok("cert renew CN=Issuing --token root --label root --out issuing2.pem");
    tool.shell(
        "test $(openssl x509 -in new.pem -noout -pubkey | sha256sum | cut -c-9) != $(openssl x509 -in www.pem -noout -pubkey | sha256sum | cut -c-9)
         test $(openssl x509 -in issuing.pem -noout -ext nameConstraints | sha256sum | cut -c-9) = $(openssl x509 -in issuing2.pem -noout -ext nameConstraints | sha256sum | cut -c-9)
         openssl verify -CAfile root.pem -untrusted issuing2.pem new.pem",
    );
    assert!(tool.fails(7, &format!("cert renew old.pem {CA}")).contains("is revoked"));
    assert!(tool.fails(7, "cert renew www.pem --token root --label root").contains("of CN=Issuing"));
}

/// A root with two certificates, of which `old` is revoked, and a CRL.
fn one_tier() -> Option<Tool> {
    let tool = Tool::empty()?;
    tool.ok("token init --label ca");
    tool.ok("key generate --type ec:p256 --label ca");
    tool.ok("cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem");
    tool.ok("key generate --type ec:p256 --label key");
    tool.ok("csr --label key --subject CN=any --out key.csr");
    tool.ok("ca init --label ca");
    for name in ["www", "old"] {
        tool.ok(&issue(name, ""));
    }
    tool.ok("cert revoke old.pem --reason key-compromise");
    tool.ok("crl --label ca --out ca.crl");
    Some(tool)
}

/// Returns the command that issues a certificate with this name to the file of this name.
fn issue(name: &str, more: &str) -> String {
    format!(
        "cert issue key.csr --label ca --profile tls-server --subject CN={name} --san dns:{name}.example.org {more} --out {name}.pem"
    )
}

#[test]
fn a_ca_without_its_list_signs_nothing() {
    let Some(tool) = one_tier() else { return };
    let others = [
        "crl --label ca",
        "cert issue key.csr --label ca --profile tls-client",
        "cert issued",
        "cert revoke 01",
    ];
    for line in others {
        let text = tool.fails(3, &format!("{line} --issued issued.sqlte"));
        assert!(text.contains("there is no list"), "{line}: {text}");
    }
    assert!(!tool.scratch.path().join("issued.sqlte").exists());
    // A list of another CA.
    tool.ok("key generate --type ec:p256 --label other");
    tool.ok("cert self-sign --label other --subject CN=Root --ca --import");
    tool.ok("ca init --label other --issued other.sqlite");
    for line in &others[..2] {
        let text = tool.fails(3, &format!("{line} --issued other.sqlite"));
        assert!(text.contains("does not have this CA"), "{line}: {text}");
    }
    // Another certificate of the same CA.
    tool.ok("cert self-sign --label ca --subject CN=Root --ca --days 9 --out again.pem");
    tool.fails(7, "crl --label ca --ca-cert again.pem");
    tool.ok("ca init --label ca --ca-cert again.pem");
    let row = tool.json("crl --label ca --ca-cert again.pem --json");
    assert_eq!((row["number"].as_u64(), row["revoked"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn a_list_that_another_user_could_write_is_refused() {
    let Some(tool) = one_tier() else { return };
    let path = tool.scratch.path().join("issued.sqlite");
    let list = std::fs::read(&path).expect("the list");
    let database = || rusqlite::Connection::open(&path).expect("a database");
    const BACK: &str =
        "CREATE TRIGGER back AFTER UPDATE ON certificate BEGIN UPDATE certificate SET revoked = NULL; END";
    let changes: [(i32, &dyn Fn()); 5] = [
        (9, &|| set_mode(&path, 0o666)),
        (9, &|| set_mode(&path, 0o660)),
        (8, &|| database().execute_batch(BACK).expect("a trigger")),
        (8, &|| database().execute_batch("CREATE VIEW one AS SELECT 1").expect("a view")),
        (8, &|| std::fs::write(&path, "").expect("a file")),
    ];
    for (number, (status, change)) in changes.into_iter().enumerate() {
        change();
        for line in ["crl --label ca", "cert issued", "cert revoke www.pem"] {
            let text = tool.fails(status, line);
            assert!(text.contains("issued.sqlite"), "{number} {line}: {text}");
        }
        std::fs::write(&path, &list).expect("a file");
        set_mode(&path, 0o600);
    }
    std::fs::rename(&path, tool.scratch.file("elsewhere")).expect("a name");
    std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
    assert!(tool.fails(1, "crl --label ca").contains("symbolic link"));
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner");
}

/// A refused command takes no number, and a number never comes twice.
#[test]
fn the_number_of_a_crl_grows() {
    let Some(tool) = one_tier() else { return };
    let number = |more: &str| tool.json(&format!("crl --label ca --json {more}"))["number"].as_u64();
    let old = std::fs::read(tool.scratch.file("issued.sqlite")).expect("the list");
    tool.fails(4, "crl --label ca --out ca.crl");
    assert_eq!(
        (number(""), number("--out ca.crl --force"), number("--number 7")),
        (Some(2), Some(3), Some(7))
    );
    tool.fails(7, "crl --label ca --number 7");
    assert_eq!(number(""), Some(8));
    // An older list comes back. The file shows that its next number is too low.
    std::fs::write(tool.scratch.file("issued.sqlite"), old).expect("a file");
    assert!(tool.fails(7, "crl --label ca --out ca.crl --force").contains("the file has the CRL 3"));
    assert_eq!(number("--out ca.crl --force --number 9"), Some(9));
    // Nothing is issued if the file exists.
    let before = tool.rows("cert issued --json").len();
    tool.fails(4, &issue("www", ""));
    assert_eq!(tool.rows("cert issued --json").len(), before);
}

#[test]
fn certificates_are_revoked_by_file_name_and_number_and_a_hold_ends() {
    let Some(tool) = one_tier() else { return };
    tool.fails(4, "cert revoke old.pem");
    tool.fails(3, "cert revoke 0102");
    tool.fails(3, "cert revoke ca.pem");
    tool.ok("cert revoke www.example.org --reason hold");
    assert_eq!(tool.json("crl --label ca --json")["revoked"].as_u64(), Some(2));
    tool.fails(4, "cert revoke www --reason hold");
    tool.ok("cert release www.pem");
    assert_eq!(tool.json("crl --label ca --json")["revoked"].as_u64(), Some(1));
    tool.fails(4, "cert release www");
    tool.ok("cert revoke CN=www --reason hold");
    tool.ok("cert revoke www --reason superseded");
    // A second certificate with a name: the name means the valid one, and two are too many.
    tool.ok(&issue("www", "--force"));
    tool.ok("cert show www --out again.pem");
    assert_eq!(tool.read("again.pem"), tool.read("www.pem"));
    tool.ok(&issue("www", "--force"));
    assert!(tool.fails(1, "cert revoke www").contains("several certificates fit"));
    let rows = tool.rows("cert issued --status revoked --name old --ca Root --json");
    assert!(rows.len() == 1 && rows[0]["reason"] == "key-compromise", "{rows:?}");
    tool.ok("cert expiring --within 89d");
    assert_eq!(fails(1, &mut tool.command("cert expiring --within 13w")).lines().count(), 1);
}

/// A CA of OpenSSL with three certificates, of which one is revoked and one on hold, and its CRL 5.
const OLD: &str = "
    mkdir -p demo/newcerts demo/private
    printf '[ca]\ndefault_ca=d\n[d]\ndir=demo\ndatabase=demo/index.txt\nnew_certs_dir=demo/newcerts\nserial=demo/serial
crlnumber=demo/crlnumber\ndefault_md=sha256\npolicy=p\ndefault_days=99\ndefault_crl_days=30\ncopy_extensions=copy
[p]\ncommonName=supplied\n[v3]\nbasicConstraints=critical,CA:TRUE\n' > demo/cnf
    touch demo/index.txt; echo 9000 > demo/serial; echo 05 > demo/crlnumber
    ca() { openssl ca -batch -config demo/cnf -keyfile ca.key -cert ca.pem \"$@\"; }
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout ca.key -subj /CN=Old -out ca.csr
    openssl ca -batch -config demo/cnf -selfsign -keyfile ca.key -in ca.csr -extensions v3 -out ca.pem \
      -startdate 20200101000000Z -enddate 20400101000000Z -notext
    for name in a b c; do
      openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /CN=$name -addext subjectAltName=DNS:$name.test -out $name.csr
      ca -in $name.csr -out $name.pem -notext
    done
    ca -revoke b.pem -crl_reason keyCompromise
    ca -revoke c.pem -crl_hold holdInstructionReject
    ca -gencrl -out demo/old.crl";

#[test]
fn a_ca_of_openssl_is_adopted_with_its_revocations() {
    let Some(tool) = Tool::empty() else { return };
    if !has("openssl") {
        return;
    }
    tool.shell(OLD);
    tool.ok("token init --label old");
    tool.ok("key import ca.key --token old --label old");
    tool.ok("cert import ca.pem --token old --label old");
    tool.fails(3, "crl --label old");
    // Each source alone, and all together. The certificate of the CA is older than its list.
    for (number, source) in
        ["demo/index.txt", "demo/old.crl", "demo", "demo/newcerts a.pem demo/index.txt"].iter().enumerate()
    {
        let list = format!("--label old --issued list{number}");
        tool.ok(&format!("ca init {list}"));
        assert!(tool.fails(7, &format!("crl {list}")).contains("may have signed CRLs"), "{source}");
        tool.ok(&format!("ca adopt {source} {list}"));
        let knows_crl = !source.contains("index.txt");
        let word = if knows_crl { "" } else { "--number 6" };
        if !knows_crl {
            tool.fails(7, &format!("crl {list}"));
        }
        let row = tool.json(&format!("crl {list} {word} --out crl{number} --json"));
        assert_eq!((row["number"].as_u64(), row["revoked"].as_u64()), (Some(6), Some(2)), "{source}");
        tool.shell(&format!(
            "for crl in demo/old.crl crl{number}; do
               openssl crl -in $crl -noout -text | grep 'Serial Number:\\|Revocation Date\\|Key Comp\\|Certificate Hold' > found
               [ -e expected ] || cp found expected
             done
             cmp expected found
             openssl verify -crl_check -CRLfile crl{number} -CAfile ca.pem a.pem
             ! openssl verify -crl_check -CRLfile crl{number} -CAfile ca.pem b.pem"
        ));
    }
    let list = "--issued list2";
    let rows = tool.rows(&format!("cert issued {list} --json"));
    let states: Vec<_> = rows.iter().map(|row| (row["subject"].as_str(), row["status"].as_str())).collect();
    for state in [("CN=a", "valid"), ("CN=b", "revoked"), ("CN=c", "held")] {
        assert!(states.contains(&(Some(state.0), Some(state.1))), "{states:?}");
    }
    tool.ok(&format!("cert release c.pem {list}"));
    tool.ok(&format!("cert revoke a.test {list}"));
    tool.ok(&format!("cert show b {list} --out again.pem"));
    assert_eq!(tool.read("again.pem"), tool.read("b.pem"));
    // A second reading takes nothing back.
    tool.ok(&format!("ca adopt demo {list} --label old"));
    assert_eq!(tool.rows(&format!("cert issued {list} --status revoked --json")).len(), 2);
    // What another CA signed, and a damaged database.
    tool.shell("sed '2s/\tunknown/unknown/' demo/index.txt > bad-index.txt");
    assert!(tool.fails(8, &format!("ca adopt bad-index.txt {list} --label old")).contains("line 2"));
    tool.shell("openssl req -x509 -new -key key -subj /CN=Old -out foreign.pem");
    tool.fails(8, &format!("ca adopt foreign.pem {list} --label old"));
}
