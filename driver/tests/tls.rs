//! `jeton-driver tls --serve`: an independent client makes handshakes with keys of the token.

mod common;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Scratch, driver, has, peer, run, succeed};
use cryptoki_sys::{CKA_ID, CKA_LABEL, CKA_PUBLIC_KEY_INFO, CKA_TOKEN};
use jeton_client::{Access, Attribute, Module, User};
use jeton_peers::{Known, Sandbox, TokenAccess};
use jeton_pki::certificate::{self, Holder, Login, Role, Signer};
use jeton_pki::key_type::KeyType;

/// A server process. Dropping this value ends it.
struct Server {
    child: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the tool starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        Self { child, address, lines }
    }

    /// Connects with `openssl s_client` and requests the page. The output of the client must
    /// contain these texts, in any case of letters: OpenSSL 3.0 writes ed25519, and later versions
    /// Ed25519.
    fn openssl(&self, certificates: &str, arguments: &str, wanted: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &self.address, "-CAfile", certificates, "-ign_eof"]);
        command.args(["-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error"]);
        command.args(arguments.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.stderr(Stdio::piped()).spawn().expect("openssl starts");
        client.stdin.take().expect("a pipe").write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it reads");
        let output = client.wait_with_output().expect("openssl ends");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).to_lowercase();
        for part in wanted {
            assert!(text.contains(&part.to_lowercase()), "{arguments}: no {part:?} in\n{text}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn openssl_makes_handshakes_with_keys_of_the_token() {
    if peer(Known::Jeton).is_none() || !has("openssl") {
        return;
    }
    let scratch = Scratch::new();
    let (pem, session) = (scratch.file("certificates.pem"), scratch.file("session.pem"));
    const CASES: [(&str, &str, &str); 9] = [
        ("1_2", "RSA-PSS+SHA256:RSA+SHA256", "RSA-PSS"),
        ("1_3", "RSA-PSS+SHA512:RSA+SHA256", "RSA-PSS"),
        // RSA with PKCS #1 is not in TLS 1.3.
        ("1_2", "RSA+SHA384:RSA+SHA256", "RSA"),
        ("1_2", "ECDSA+SHA256", "ECDSA"),
        ("1_3", "ECDSA+SHA256", "ECDSA"),
        ("1_2", "ECDSA+SHA384", "ECDSA"),
        ("1_3", "ECDSA+SHA384", "ECDSA"),
        ("1_2", "ed25519", "Ed25519"),
        ("1_3", "ed25519", "Ed25519"),
    ];
    let mut command = driver(["tls", "--serve", "127.0.0.1:0", "--keys", "rsa2048,p256,p384,ed25519"]);
    command.args(["--certificates", &pem, "--connections", "11"]);
    let mut server = Server::start(command);
    for (version, schemes, signature) in CASES {
        let protocol = format!("New, TLSv{}, Cipher is ", version.replace('_', "."));
        let (page, signature) = (format!("\nTLSv{version}, "), format!("peer signature type: {signature}\n"));
        let wanted = [&*protocol, "Verify return code: 0 (ok)", &page, &signature];
        server.openssl(&pem, &format!("-tls{version} -sigalgs {schemes}"), &wanted);
    }
    for (option, wanted) in [("-sess_out", "New, TLSv1.2"), ("-sess_in", "Reused, TLSv1.2")] {
        server.openssl(&pem, &format!("-tls1_2 {option} {session}"), &[wanted]);
    }
    // The server ends by itself after the last connection, and has described each connection.
    let lines: Vec<_> = (&mut server.lines).lines().map_while(Result::ok).collect();
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert!(server.child.wait().is_ok_and(|status| status.success()));
}

/// Makes a token with two P-256 keys, and a self-signed certificate of the key `www`. Returns the
/// settings of the module. Returns `None` if the module is not built.
fn token(scratch: &Scratch) -> Option<Vec<(String, OsString)>> {
    let library = peer(Known::Jeton)?;
    let sandbox = Sandbox::fresh(Known::Jeton, scratch.path(), None).expect("a directory");
    let mut make = jeton_child::of_test("a_token_is_made", &(library, scratch.file("chain.pem")));
    succeed(make.envs(sandbox.environment.clone()));
    Some(sandbox.environment)
}

/// The child of [`token`], whose environment configures the module.
#[test]
fn a_token_is_made() {
    let Some(role) = jeton_child::role::<(PathBuf, PathBuf)>() else { return };
    let (library, chain) = role.expect("the role");
    make_token(&library, &chain).expect("a token");
}

fn make_token(library: &Path, chain: &Path) -> Result<(), jeton_driver::Error> {
    let module = Module::load(library)?;
    module.initialize(None)?;
    let (slot, pin) = jeton_peers::prepare_token(&module, &TokenAccess::Initialise)?;
    let session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::User, Some(&pin))?;
    let p256 = KeyType::parse("ec:p256")?;
    for label in ["other", "www"] {
        let common = [
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, label),
            Attribute::bytes(CKA_ID, label),
        ];
        let public = [&common[..], &p256.parameters].concat();
        let (public, private) = session.generate_key_pair(&p256.mechanism, &public, &common)?;
        let info = session.bytes(public, CKA_PUBLIC_KEY_INFO);
        let signer = Signer::of(&info)?;
        let holder = Holder::parse("CN=localhost", &["dns:localhost".to_owned()])?;
        let tbs = certificate::self_signed_tbs(&info, &holder, &signer, Role::Leaf, 7, [1; 16])?;
        let login = Login { pin: &|| Ok(pin.clone().into()) };
        let signature = signer.sign(&session, private, &login, &tbs)?;
        let der = certificate::assemble(&tbs, &signer, &signature)?;
        // The certificate of the last key remains.
        let pem = der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &der);
        fs::write(chain, pem.expect("PEM")).expect("a file");
    }
    Ok(())
}

#[test]
fn a_server_uses_an_existing_key_and_chain() {
    let scratch = Scratch::new();
    let Some(settings) = token(&scratch).filter(|_| has("openssl")) else { return };
    let chain = scratch.file("chain.pem");
    let serve = |label: &str| {
        let mut command = driver(["tls", "--serve", "127.0.0.1:0", "--token-label", "pipeline"]);
        command.args(["--key-label", label, "--chain", &chain, "--connections", "1"]);
        command.envs(settings.clone()).env("JETON_PIN", jeton_peers::PIN);
        command
    };
    let wanted = ["Verify return code: 0 (ok)", "\nTLSv1_3, "];
    Server::start(serve("www")).openssl(&chain, "-tls1_3", &wanted);
    for (label, wanted) in [
        ("other", "chain.pem: keys may not be consistent: KeyMismatch"),
        ("absent", "the token has no private key with the label \"absent\""),
    ] {
        let (code, text) = run(&mut serve(label));
        assert!(code == 1 && text.contains(wanted), "{code} {text}");
    }
}
