//! The OCSP responder, as its clients see it: `ocsp --listen`.

mod common;

use std::net::{Shutdown, TcpStream};

use common::*;

const CA: &str = "--token mine --label ca";

/// Makes a CA with the certificate `www.pem`, and requests for it with a nonce and without.
fn ca() -> Option<Tool> {
    let tool = Tool::new().filter(|_| has("openssl"))?;
    for label in ["ca", "www"] {
        tool.ok(&format!("key generate --token mine --type ec:p256 --label {label}"));
    }
    tool.ok(&format!("cert self-sign {CA} --subject CN=Root --ca --days 3650 --import --out ca.pem"));
    tool.ok(&format!("ca init {CA}"));
    tool.ok("csr --token mine --label www --subject CN=www --san dns:www.example.org --out www.csr");
    tool.ok(&format!("cert issue www.csr {CA} --profile tls-server --out www.pem"));
    tool.shell(
        "openssl ocsp -no_nonce -issuer ca.pem -cert www.pem -reqout request
         openssl ocsp -issuer ca.pem -cert www.pem -reqout nonce",
    );
    Some(tool)
}

impl Responder {
    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("the responder")
    }

    /// Sends bytes, and returns what the responder sends until it closes the connection.
    fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut client = self.connect();
        client.write_all(bytes).and_then(|()| client.shutdown(Shutdown::Write)).expect("it reads");
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("a response");
        all
    }

    /// Returns the head and the body of the response.
    fn ask(&self, bytes: &[u8]) -> (String, Vec<u8>) {
        let mut all = self.send(bytes);
        let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        let body = all.split_off(end);
        (String::from_utf8(all).expect("text"), body)
    }
}

fn post(request: &[u8]) -> Vec<u8> {
    [format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", request.len()).as_bytes(), request].concat()
}

fn shown(tool: &Tool, response: &[u8]) -> String {
    tool.write("response", response);
    tool.shell("openssl ocsp -respin response -issuer ca.pem -cert www.pem -CAfile ca.pem 2>&1 || true")
}

#[test]
fn a_response_may_be_cached_until_a_revocation() {
    let Some(tool) = ca() else { return };
    let responder = Responder::start(&tool, CA);
    let request = post(&tool.read("request"));
    let path = tool.shell("openssl base64 -A -in request | sed 's,/,%2F,g; s/+/%2B/g; s/=/%3d/g'");
    let (head, first) = responder.ask(format!("GET /{path} HTTP/1.1\r\n\r\n").as_bytes());
    for line in ["HTTP/1.1 200", "Last-Modified: ", "Expires: ", "ETag: \"", "max-age=86", "GMT\r\n"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    // A new signature of ECDSA would differ.
    assert_eq!(responder.ask(&request).1, first);
    let text = shown(&tool, &first);
    assert!(text.contains("Response verify OK") && text.contains("www.pem: good"), "{text}");
    let is = |status: &str| {
        let text = shown(&tool, &responder.ask(&request).1);
        assert!(text.contains(&format!("www.pem: {status}")), "{text}");
    };
    tool.shell("cp -p issued.sqlite old; cp -p old new");
    tool.ok("cert revoke www.pem");
    is("revoked");
    let alter = |sql: &str| {
        let list = rusqlite::Connection::open(tool.file("issued.sqlite")).expect("the list");
        list.execute_batch(sql).expect("the list is written");
    };
    // Another list in its place, and one that was copied into the file. SQLite counts as many
    // changes of it as before.
    tool.shell("mv new issued.sqlite");
    is("good");
    alter("UPDATE certificate SET revoked = 1");
    is("revoked");
    tool.shell("cat old > issued.sqlite");
    alter("UPDATE certificate SET remark = ''");
    is("good");
    alter("UPDATE authority SET unsure = 1");
    for _ in 0..2 {
        assert!(shown(&tool, &responder.ask(&request).1).contains("internalerror"));
    }
    alter("UPDATE authority SET unsure = 0");
    let three = responder.send(&request.repeat(3));
    assert_eq!(String::from_utf8_lossy(&three).matches("HTTP/1.1 200 OK").count(), 3);
    let (head, body) = responder.ask(&post(&tool.read("nonce")));
    assert!(head.contains("no-store"), "{head}");
    assert_ne!(responder.ask(&post(&tool.read("nonce"))).1, body);
}

#[test]
fn a_slow_client_stops_no_other_one_and_is_disconnected() {
    let Some(tool) = ca() else { return };
    let responder = Responder::start(&tool, CA);
    let start = Instant::now();
    let start_slow = || {
        let mut client = responder.connect();
        client.write_all(b"P").expect("it reads");
        client
    };
    let mut slow: Vec<_> = (0..200).map(|_| start_slow()).collect();
    assert!(responder.ask(&post(&tool.read("request"))).0.starts_with("HTTP/1.1 200"));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let mut send = || slow[192..].iter_mut().all(|client| client.write_all(b"P").is_ok());
    assert!(send());
    while send() {
        assert!(start.elapsed() < Duration::from_secs(20), "a client may send for ever");
        sleep(Duration::from_secs(1));
    }
}

/// The certificates of the list are old, so that none is signed ahead.
#[test]
fn neither_a_long_list_nor_a_long_request_takes_seconds() {
    let Some(tool) = ca() else { return };
    let list = rusqlite::Connection::open(tool.file("issued.sqlite")).expect("the list");
    list.execute_batch(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
         INSERT INTO certificate (serial, authority, profile, subject, names, not_before, not_after, der)
         SELECT format('%08x', i), authority, 'tls-server', '', '', 0, 1, x'' FROM n, certificate LIMIT 200000",
    )
    .expect("the list is written");
    let responder = Responder::start(&tool, CA);
    responder.ask(&post(&tool.read("nonce")));
    let start = Instant::now();
    for (count, status) in [(16, "www.pem: ERROR"), (17, "malformedrequest"), (600, "malformedrequest")] {
        let serials: String = (1..=count).map(|serial| format!(" -serial {serial}")).collect();
        tool.shell(&format!("openssl ocsp -no_nonce -issuer ca.pem {serials} -reqout many"));
        let text = shown(&tool, &responder.ask(&post(&tool.read("many"))).1);
        assert!(text.contains(status), "{count}: {text}");
    }
    for _ in 0..20 {
        responder.ask(&post(&tool.read("nonce")));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// The CA is two CAs of OpenSSL with one name.
#[test]
fn a_signer_that_the_ca_did_not_sign_or_that_has_expired_is_refused() {
    let Some(tool) = ca() else { return };
    tool.shell(
        "echo 'extendedKeyUsage = OCSPSigning' > extensions
         for name in own other; do
           openssl req -x509 -newkey rsa:2048 -noenc -keyout $name.key -subj /CN=Own -days 9 -out $name.pem
         done
         sign() { openssl x509 -req -in www.csr -CA $1.pem -CAkey $1.key -set_serial 1 -extfile extensions -days $2 -out $3.pem; }
         sign own 9 good; sign own -1 old; sign other 9 forged",
    );
    let line = |signer: &str| {
        format!(
            "ocsp request --token mine --label www --ca-cert own.pem --signer-cert {signer}.pem --out {signer}.der"
        )
    };
    tool.ok("key import own.key --token mine --label own");
    tool.ok("ca init --token mine --label own --ca-cert own.pem");
    tool.ok("crl --token mine --label own --ca-cert own.pem --number 1");
    tool.ok(&line("good"));
    assert!(tool.fails(7, &line("old")).contains("expired"));
    assert!(tool.fails(7, &line("forged")).contains("for OCSP responses"));
}
