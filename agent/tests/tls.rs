//! Clients of other hosts: TLS 1.3 with certificates, through the client module.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent_client as _;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use common::Agent;
use cryptoki_sys::*;
use jeton_client::{Access, Attribute, Mechanism, Module, ObjectHandle, Session, User};
use jeton_peers::{Known, PIN, SO_PIN, initialise};
use jeton_pki::certificate::{Holder, Role, Signer, assemble, self_signed_tbs};
use jeton_pki::issuer::{Issuer, Order, Revoked, profile};
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::ext::pkix::CrlReason;

/// How long the agent waits for a handshake, and a margin.
const SILENT: Duration = Duration::from_secs(15);

/// A CA whose key is in memory. It writes the files of a directory.
struct Authority<'a> {
    directory: &'a Path,
    name: &'static str,
    key: EcdsaKeyPair,
    issuer: Issuer,
}

impl<'a> Authority<'a> {
    /// Makes a CA, and writes its certificate.
    fn new(directory: &'a Path, name: &'static str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let info = public_key(&key);
        let holder = Holder::parse(&format!("CN={name}"), &[]).expect("a subject");
        let signer = Signer::of(&info).expect("a P-256 key");
        let tbs = self_signed_tbs(&info, &holder, &signer, Role::Authority, 2, [1; 16]);
        let der = signed(&key, &signer, &tbs.expect("a certificate"));
        write_pem(&directory.join(format!("{name}.pem")), "CERTIFICATE", &der);
        Self { directory, name, key, issuer: Issuer::new(&der).expect("a CA") }
    }

    /// Issues a certificate with this serial number for a host, and writes it with its key.
    fn issue(&self, host: &str, serial: [u8; 16]) {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let order = Order {
            profile: profile(if host == "localhost" { "tls-server" } else { "tls-client" })
                .expect("a profile"),
            holder: Holder::parse(&format!("CN={host}"), &[format!("dns:{host}")]).expect("a name"),
            public_key: &public_key(&key),
            days: Some(1),
            path_length: 0,
            permitted: Vec::new(),
            excluded: Vec::new(),
            crl_url: None,
            ocsp_url: None,
        };
        let tbs = self.issuer.certificate_tbs(&order, serial).expect("a certificate");
        let der = signed(&self.key, &self.issuer.signer, &tbs);
        let file = |extension: &str| self.directory.join(format!("{host}.{extension}"));
        write_pem(&file("pem"), "CERTIFICATE", &der);
        write_pem(&file("key"), "PRIVATE KEY", key.to_pkcs8v1().expect("a key").as_ref());
    }

    /// Writes a CRL with these serial numbers.
    fn revoke(&self, serials: &[[u8; 16]]) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        let revoked =
            |serial: &[u8; 16]| Revoked { serial: serial.to_vec(), time, reason: CrlReason::Unspecified };
        let revoked: Vec<_> = serials.iter().map(revoked).collect();
        let tbs = self.issuer.crl_tbs(1, &revoked, 2).expect("a CRL");
        let der = signed(&self.key, &self.issuer.signer, &tbs);
        write_pem(&self.directory.join(format!("{}.crl", self.name)), "X509 CRL", &der);
    }
}

fn public_key(key: &EcdsaKeyPair) -> Vec<u8> {
    key.public_key().as_der().expect("a public key").as_ref().to_vec()
}

fn signed(key: &EcdsaKeyPair, signer: &Signer, tbs: &[u8]) -> Vec<u8> {
    let signature = key.sign(&SystemRandom::new(), tbs).expect("a signature");
    assemble(tbs, signer, signature.as_ref()).expect("DER")
}

fn write_pem(path: &Path, label: &str, der: &[u8]) {
    std::fs::write(path, encode_string(label, LineEnding::LF, der).expect("PEM")).expect("a file");
}

/// Returns a serial number that [`Issuer::certificate_tbs`] does not change: positive and long.
const fn serial(number: u8) -> [u8; 16] {
    [0x40 | number; 16]
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The library parameters of a client with this certificate.
fn parameters(directory: &Path, addresses: &[String], name: &str) -> String {
    let directory = directory.display();
    format!(
        "agent = {{ address = '{}', certificate = '{directory}/{name}.pem', key = '{directory}/{name}.key', \
         authority = '{directory}/ca.pem' }}",
        addresses.join(", ")
    )
}

/// The rules of an agent that listens on this port.
fn rules(directory: &Path, port: u16, clients: &str) {
    let path = directory.display();
    let text = format!(
        "{clients}\n[tls]\nlisten = '127.0.0.1:{port}'\ncertificate = '{path}/localhost.pem'\n\
         key = '{path}/localhost.key'\nauthority = '{path}/ca.pem'\nrevoked = '{path}/ca.crl'\n"
    );
    std::fs::write(directory.join("rules.toml"), text).expect("a file");
}

fn key(session: &Session) -> ObjectHandle {
    session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0]
}

fn sign(session: &Session, key: ObjectHandle) -> Result<usize, CK_RV> {
    session.sign_init(&Mechanism::new(CKM_ECDSA), key).map_err(|failure| failure.code)?;
    session.sign(&[7; 32], &mut [0; 64]).map_err(|failure| failure.code)
}

#[test]
fn a_certificate_chooses_the_rule_and_others_get_no_connection() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let ca = Authority::new(directory, "ca");
    for (number, name) in (1..).zip(["localhost", "web.example", "stranger.example", "revoked.example"]) {
        ca.issue(name, serial(number));
    }
    Authority::new(directory, "foreign").issue("forged.example", serial(5));
    ca.revoke(&[serial(4)]);

    let port = free_port();
    let uid = rustix::process::getuid().as_raw();
    let clients =
        format!("[[client]]\nuid = {uid}\n[[client]]\ncertificate = 'web.example'\nobjects = ['web-*']");
    rules(directory, port, &clients);
    let mut agent = Agent::start(directory);
    let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
    // Over the Unix socket, this user makes a key that the client of the other host must not see.
    module.initialize(Some(&common::parameters(directory))).expect("rules that accept this user");
    let free = module.slots(true).expect("slots").pop().expect("a free slot");
    initialise(&module, free, "shared", SO_PIN, PIN).expect("a token");
    let slot = module.slots(true).expect("slots")[0];
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    let generate = |session: &Session, label: &str| {
        let curve = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let label = Attribute::bytes(CKA_LABEL, label.as_bytes());
        let token = || Attribute::flag(CKA_TOKEN, true);
        let public = [Attribute::bytes(CKA_EC_PARAMS, curve), token(), label.clone()];
        let pair =
            session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &[token(), label]);
        pair.map(|(_, private)| private).map_err(|failure| failure.code)
    };
    let hidden = generate(&session, "root-ca").expect("a key");
    session.close().expect("a session");
    module.finalize().expect("a module");

    let addresses = [format!("tls://localhost:{port}")];
    module.initialize(Some(&parameters(directory, &addresses, "web.example"))).expect("an agent");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    assert_eq!(session.find(&[]).expect("a search"), [], "objects of others");
    assert_eq!(sign(&session, hidden), Err(CKR_KEY_HANDLE_INVALID));
    assert_eq!(generate(&session, "root-ca"), Err(CKR_ACTION_PROHIBITED));
    let own = generate(&session, "web-1").expect("a key");
    assert_eq!(session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search"), [own]);
    assert_eq!(sign(&session, own), Ok(64));
    let renamed = session.set_attributes(own, &[Attribute::bytes(CKA_LABEL, "root-ca".as_bytes())]);
    assert_eq!(renamed.map_err(|failure| failure.code), Err(CKR_ACTION_PROHIBITED));
    // After a restart, the login goes on.
    agent.replace();
    assert_eq!(sign(&session, own), Ok(64));

    // The agent asks whether the host is still there: timer 2 is that of keep-alive.
    let is_asked = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_of_agent = fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "01";
        is_of_agent && fields[5].starts_with("02:")
    };
    common::until("no keep-alive", || {
        std::fs::read_to_string("/proc/net/tcp").expect("the sockets").lines().any(is_asked)
    });

    // A peer that says nothing, and one that speaks no TLS, cost their own connection only.
    let mut silent = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut other = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    other.write_all(&[0xff; 4096]).expect("bytes");
    assert_eq!(sign(&session, own), Ok(64));
    let start = Instant::now();
    for peer in [&mut other, &mut silent] {
        peer.set_read_timeout(Some(SILENT)).expect("a socket");
        let _ = peer.read_to_end(&mut Vec::new());
    }
    assert!(start.elapsed() < SILENT, "the agent keeps peers that say nothing");

    // A certificate that is revoked now: the connection ends, and there is no other.
    ca.revoke(&[serial(4), serial(2)]);
    agent.signal(rustix::process::Signal::HUP);
    common::until("a revoked certificate goes on", || sign(&session, own).is_err());
    drop(session);
    let _ = module.finalize();

    for name in ["stranger.example", "revoked.example", "web.example", "forged.example"] {
        let refused = module.initialize(Some(&parameters(directory, &addresses, name)));
        assert_eq!(refused.map_err(|failure| failure.code), Err(CKR_GENERAL_ERROR), "{name}");
    }
    assert!(agent.runs());
}

#[test]
fn an_application_changes_to_the_other_agent_when_one_fails() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    ca.revoke(&[]);
    // Both agents have the same tokens and the same key of tickets.
    let ports = [free_port(), free_port()];
    let mut agents = ports.map(|port| {
        rules(directory, port, "[[client]]");
        Some(Agent::start_beside(directory, &format!("agent-{port}.socket")))
    });
    let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
    let addresses = ports.map(|port| format!("tls://localhost:{port}"));
    module.initialize(Some(&parameters(directory, &addresses, "web.example"))).expect("an agent");
    let free = module.slots(true).expect("slots").pop().expect("a free slot");
    initialise(&module, free, "shared", SO_PIN, PIN).expect("a token");
    let slot = module.slots(true).expect("slots")[0];
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    let curve = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let token = || Attribute::flag(CKA_TOKEN, true);
    let public = [Attribute::bytes(CKA_EC_PARAMS, curve), token()];
    session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &[token()]).expect("a key");
    let key = key(&session);
    for round in 0..6 {
        let at = round % 2;
        agents[at] = None;
        assert_eq!(sign(&session, key), Ok(64), "round {round}");
        rules(directory, ports[at], "[[client]]");
        agents[at] = Some(Agent::start_beside(directory, &format!("agent-{}.socket", ports[at])));
    }
}
