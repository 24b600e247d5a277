//! A two-tier CA with the tool alone: `ca`, `cert issue`, `cert revoke`, `crl` and `ocsp`. OpenSSL
//! accepts its certificates, CRLs and responses.

mod common;

use std::net::TcpStream;

use common::*;

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
    let responder = Responder::start(&tool, CA);
    // Requests that are refused. The responder goes on afterwards.
    for (request, status) in [
        ("PUT / HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n".to_owned(), "413"),
        ("POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n".to_owned(), "400"),
        ("\0\r\n\r\n".to_owned(), "400"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), "411"),
        (format!("{:y<65535}y", "POST / HTTP/1.1\r\nx: "), "431"),
    ] {
        let mut client = TcpStream::connect(&responder.address).expect("the responder");
        client.write_all(request.as_bytes()).expect("the responder reads it");
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{request:.60}");
    }
    let text = tool.shell(&format!("openssl ocsp -url http://{} {check} 2>&1", responder.address));
    assert!(text.contains("Response verify OK") && text.contains("www.pem: good"), "{text}");
    let answer = |label: &str| {
        format!(
            "ocsp request --token online --label {label} --ca-cert issuing.pem --signer-cert ocsp.pem --out no"
        )
    };
    assert!(tool.fails(1, &answer("www")).contains("not that of the signer's certificate"));
    tool.ok("cert revoke ocsp.pem");
    assert!(tool.fails(7, &answer("ocsp")).contains("is revoked"));
}

#[test]
fn openssl_accepts_a_ca_with_p256() {
    openssl_accepts("ec:p256");
}

#[test]
fn openssl_accepts_a_ca_with_rsa_3072() {
    openssl_accepts("rsa:3072");
}

/// Returns whether OpenSSL knows ML-DSA, as version 3.5 and later do.
fn openssl_has_ml_dsa() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    version.is_ok_and(|text| [" 3.5", " 3.6", " 4."].iter().any(|new| text.contains(new)))
}

/// An OpenSSL without ML-DSA splits the structures, and the module verifies the signatures.
#[test]
fn the_signatures_of_a_ca_with_ml_dsa_65_are_valid() {
    if openssl_has_ml_dsa() {
        return openssl_accepts("ml-dsa-65");
    }
    module_accepts("ml-dsa-65", 3309);
}

/// OpenSSL has no composites.
#[test]
fn the_signatures_of_a_ca_with_composite_keys_are_valid() {
    module_accepts("mldsa65-ecdsa-p256", 3309 + 72);
}

/// The module verifies the signatures of this length that a CA made.
fn module_accepts(kind: &str, length: usize) {
    let Some(tool) = two_tiers(kind) else { return };
    for (file, key) in [("www.pem", CA), ("issuing.crl", CA), ("issuing.pem", "--token root --label root")] {
        tool.shell(&format!("openssl asn1parse -in {file} -noout -out der"));
        split(&tool, length);
        tool.ok(&format!("verify message {key} --class public --signature signature"));
    }
    let path = "--roots root.pem --untrusted issuing.pem --crl root.crl --crl issuing.crl";
    assert!(tool.ok(&format!("cert verify www.pem {path} --host www.example.org")).contains("CN=Root"));
    assert!(tool.fails(1, &format!("cert verify old.pem {path}")).contains("is revoked"));
    assert!(tool.ok("cert info www.pem").contains(kind));
    // The first byte of the signature, and its last one: each component of a composite.
    tool.shell("openssl asn1parse -in www.pem -noout -out der");
    let der = tool.read("der");
    for at in [der.len() - length, der.len() - 1] {
        let mut changed = der.clone();
        changed[at] ^= 1;
        tool.write("changed", changed);
        let text = tool.fails(1, &format!("cert verify changed {path}"));
        assert!(text.contains("a signature is wrong"), "{at}: {text}");
    }
    tool.shell("openssl asn1parse -in issuing.crl -noout -out der");
    let mut crl = tool.read("der");
    *crl.last_mut().expect("a CRL") ^= 1;
    tool.write("changed", crl);
    let text = tool.fails(1, &format!("cert verify www.pem {}", path.replace("issuing.crl", "changed")));
    assert!(text.contains("no CRL"), "{text}");
}

/// Writes the signed part and the signature of a structure to files. The signed part is the first
/// element of the outer SEQUENCE. The signature is the last element, after a byte with the number
/// of unused bits.
fn split(tool: &Tool, length: usize) {
    tool.shell(&format!(
        "openssl asn1parse -inform DER -in der -strparse 4 -noout -out message
         tail -c {length} der > signature"
    ));
}

/// `conformance/clients/Composites.java` made the key and the certificate, with ML-DSA-44 and
/// Ed25519.
#[test]
fn a_composite_key_of_bouncy_castle_is_imported_and_verifies_its_certificate() {
    let Some(tool) = Tool::new() else { return };
    if !has("openssl") {
        return;
    }
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/composites");
    tool.ok(&format!("key import {files}/bouncy-castle.p8 --label castle --id 07"));
    tool.shell(&format!("cp {files}/bouncy-castle.crt der"));
    split(&tool, 2420 + 64);
    let verify = "verify message --label castle --class public --signature signature";
    tool.ok(verify);
    // The certificate has the public key of the imported private key.
    tool.ok("key export --label castle --format der --out info");
    let (info, certificate) = (tool.read("info"), tool.read("der"));
    assert!(certificate.windows(info.len()).any(|part| part == info));
    for alone in ["head -c 2420", "tail -c 64", "head -c 2483"] {
        tool.shell(&format!("tail -c 2484 der | {alone} > signature"));
        tool.fails(1, verify);
    }
}

/// The holder of such a certificate could sign as the CA.
#[test]
fn a_composite_key_with_the_key_of_the_ca_is_refused() {
    let Some(tool) = Tool::new() else { return };
    if !has("openssl") {
        return;
    }
    tool.shell("openssl ecparam -name prime256v1 -genkey -noout -outform DER -out ec");
    let key = tool.read("ec");
    let element = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("a short element");
        [&[tag, 0x81, length], content].concat()
    };
    let algorithm = b"\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x06\x28";
    let both = element(4, &[&[7; 32], &key[..]].concat());
    tool.write("both", element(0x30, &[&[2, 1, 0], &algorithm[..], &both].concat()));
    tool.ok("key import ec --label ca --id 07");
    tool.ok("key import both --label both --id 08");
    tool.ok("cert self-sign --label ca --subject CN=CA --ca --import --out ca.pem");
    tool.ok("ca init --label ca");
    // The key of the CA was imported, so it may have signed CRLs before.
    tool.ok("crl --label ca --number 1 --out ca.crl");
    tool.ok("csr --label both --subject CN=x --san dns:x.test --out x.csr");
    let text = tool.fails(7, "cert issue x.csr --label ca --profile tls-server");
    assert!(text.contains("the public key is that of the CA"), "{text}");
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
    for (request, more, reason) in [
        ("ca.csr", "--profile tls-server", "asks for the certificate of a CA"),
        ("other.csr", "--profile tls-server", "name constraints"),
        ("ip.csr", "--profile tls-server", "name constraints of CN=Issuing exclude ip:10.0.0.1"),
        ("cn.csr", "--profile tls-server", "name constraints of CN=Issuing exclude dns:www.evil.test"),
        ("any.csr", "--profile tls-server", "dns:* is not a valid name"),
        ("own.csr", "--profile tls-server", "the subject of the CA itself"),
        ("short.csr", "--profile tls-server", "an RSA key of 1024 bits"),
        ("changed.der", "--profile tls-server", "signature of the request is not valid"),
        ("good.csr", "--profile tls-server --days 399", "at most "),
        ("good.csr", "--profile tls-client --san ip:127.0.0.1", "no names of the type ip"),
        ("issuing.csr", "--profile tls-server", "needs a name"),
        ("issuing.csr", "--profile sub-ca --subject CN=Below", "allows 0 CAs below it"),
        ("issuing.csr", "--profile tls-client --subject CN=x", "the public key is that of the CA"),
        ("good.csr", "--profile tls-server --permit dns:a", "only the profile sub-ca"),
    ] {
        let text = tool.fails(7, &issue(request, more));
        assert!(text.contains(reason), "{request} {more}: {text}");
    }
    let before = tool.rows("cert issued --json").len();
    tool.ok(&issue("good.csr", "--profile tls-server"));
    assert_eq!(tool.rows("cert issued --json").len(), before + 1);
}

/// Runs a script of `tests/authority` with these variables, in a directory with tokens of its own.
fn script(text: &str, variables: &[(&str, &str)]) {
    const FAILS: &str = "fails() { local code=0; \"${@:2}\" 2>&1 || code=$?; [ $code = $1 ]; }\n";
    let Some(tool) = Tool::empty() else { return };
    if !has("openssl") {
        return;
    }
    let jeton = Path::new(env!("CARGO_BIN_EXE_jeton")).parent().expect("a folder");
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &[FAILS, text].concat()]).current_dir(tool.path());
    command.env("JETON_DIR", tool.file("tokens")).env("JETON_CONF", tool.file("conf"));
    let path = std::env::var("PATH").expect("PATH");
    command.env("PATH", format!("{}:{path}", jeton.display()));
    command.env("SCRIPTS", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/authority"));
    command.envs(variables.iter().copied());
    command.env("JETON_PIN", PIN).env("JETON_SO_PIN", SO_PIN);
    succeed(command.stdin(Stdio::null()));
}

#[test]
fn a_ca_without_its_own_list_signs_nothing() {
    script(include_str!("authority/list.sh"), &[]);
}

#[test]
fn certificates_are_revoked_held_and_renewed_from_the_list() {
    script(include_str!("authority/year.sh"), &[]);
}

#[test]
fn a_ca_of_openssl_is_adopted_with_its_revocations() {
    script(include_str!("authority/adopted.sh"), &[]);
}

#[test]
fn the_folder_of_easy_rsa_is_adopted() {
    if Path::new("/usr/share/easy-rsa/easyrsa").exists() {
        script(include_str!("authority/easy-rsa.sh"), &[]);
    } else {
        jeton_programs::skip_without("easy-rsa", &["easy-rsa"]);
    }
}

#[test]
fn what_a_request_asks_beyond_the_profile_is_left_out() {
    script(include_str!("authority/profiles.sh"), &[]);
}

#[test]
fn a_path_has_what_each_certificate_and_each_crl_of_it_says() {
    script(include_str!("authority/paths.sh"), &[]);
}

#[test]
fn a_requester_stops_no_other_request_and_writes_no_other_file() {
    script(include_str!("authority/requester.sh"), &[]);
}

#[test]
fn a_compromised_key_gets_no_certificate_in_any_form() {
    script(include_str!("authority/compromised.sh"), &[]);
}

#[test]
fn crls_follow_each_other_and_a_lost_result_is_no_success() {
    script(include_str!("authority/published.sh"), &[]);
}

#[test]
fn a_killed_command_leaves_a_list_that_is_true() {
    script(include_str!("authority/killed.sh"), &[("ROUNDS", "8")]);
}

#[test]
#[ignore = "in .ci/full"]
fn commands_that_are_killed_forty_times_leave_a_list_that_is_true() {
    script(include_str!("authority/killed.sh"), &[("ROUNDS", "40")]);
}

#[test]
fn twenty_administrators_and_a_timer_leave_the_newest_crl() {
    script(include_str!("authority/at-once.sh"), &[]);
}

/// A command is stopped as soon as its CRL counts, and goes on when the next command had its time.
#[test]
fn a_command_that_was_stopped_does_not_replace_a_newer_crl() {
    let Some(tool) = Tool::new() else { return };
    if !has("openssl") {
        return;
    }
    tool.ok("key generate --type ec:p256 --label ca");
    tool.ok("cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem");
    tool.ok("ca init --label ca");
    tool.ok("key generate --type ec:p256 --label key");
    tool.ok("csr --label key --subject CN=x --out x.csr");
    let publish = || tool.command("crl --label ca --out ca.crl --force").spawn().expect("the tool");
    succeed(&mut tool.command("crl --label ca --out ca.crl"));
    let list = rusqlite::Connection::open(tool.file("issued.sqlite")).expect("the list");
    let counted = || list.query_row("SELECT crl_number FROM authority", [], |row| row.get::<_, i64>(0));
    let number = || tool.shell("openssl crl -in ca.crl -noout -crlnumber");
    for round in 1..=10 {
        tool.ok(&format!(
            "cert issue x.csr --label ca --profile tls-client --subject CN={round} --out {round}.pem"
        ));
        let before = counted().expect("a number");
        let mut stopped = publish();
        // A locked list is read again.
        while counted().is_ok_and(|now| now == before) || counted().is_err() {
            assert!(stopped.try_wait().expect("a child").is_none_or(|status| status.success()));
        }
        let signal = |signal| {
            let pid = rustix::process::Pid::from_child(&stopped);
            let _ = rustix::process::kill_process(pid, signal);
        };
        signal(rustix::process::Signal::STOP);
        tool.ok(&format!("cert revoke {round}.pem --reason superseded"));
        let mut next = publish();
        for _ in 0..10 {
            if next.try_wait().expect("a child").is_some() {
                break;
            }
            sleep(Duration::from_millis(50));
        }
        signal(rustix::process::Signal::CONT);
        assert!(stopped.wait().expect("a child").success() && next.wait().expect("a child").success());
        assert_eq!(
            u64::from_str_radix(number().trim().trim_start_matches("crlNumber=0x"), 16),
            Ok(before as u64 + 2)
        );
        let text = tool.shell("openssl crl -in ca.crl -noout -text");
        let own = serial(&tool, &format!("CN={round}")).to_uppercase();
        assert!(text.contains(own.trim_start_matches("00")), "{text}");
    }
}

/// The verifiers beside OpenSSL take part if they know the type of the keys.
fn two_years(kind: &str, verifiers: &str) {
    if ["faketime", "jq", "certtool", "go", "nginx"].into_iter().all(has) {
        let variables = [("KIND", kind), ("VERIFIERS", verifiers)];
        script(include_str!("authority/two-years.sh"), &variables);
    }
}

#[test]
#[ignore = "in .ci/full"]
fn verifiers_agree_with_the_list_for_two_years_of_p256() {
    two_years("ec:p256", "gnutls go");
}

#[test]
#[ignore = "in .ci/full"]
fn verifiers_agree_with_the_list_for_two_years_of_rsa_3072() {
    two_years("rsa:3072", "gnutls go");
}

#[test]
#[ignore = "in .ci/full"]
fn verifiers_agree_with_the_list_for_two_years_of_ml_dsa_65() {
    if !openssl_has_ml_dsa() {
        return skip("OpenSSL 3.5 and later knows ML-DSA: Debian 13 has it");
    }
    two_years("ml-dsa-65", "");
}

#[test]
#[ignore = "in .ci/full"]
fn verifiers_accept_what_a_ca_signs_below_constraints() {
    if has("certtool") && has("go") {
        script(include_str!("authority/constraints.sh"), &[]);
    }
}
