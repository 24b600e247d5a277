//! Clients that others wrote, each a process of its own on the built library: `pkcs11-tool`, GnuTLS and NSS, with
//! OpenSSL as the judge of what was signed. A client that is not installed is left out, and said so.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const SO_PIN: &str = "the officer's";
const PIN: &str = "the user's";
const MESSAGE: &[u8] = b"a message that OpenSSL sees as well";

/// A directory with a token, and the programs that use it.
struct Desk {
    directory: PathBuf,
    module: PathBuf,
}

/// What a program said.
struct Said {
    ok: bool,
    text: String,
}

impl Desk {
    /// An empty directory; `None`, said aloud, where a program is missing.
    fn with(programs: &[&str]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for program in programs {
            let mut command = Command::new(program);
            let started = command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if started.is_err() {
                // Not by eprintln!, which the test runner keeps to itself.
                let note = format!("SKIPPED: {program} is not installed, its test did not run\n");
                std::io::stderr().write_all(note.as_bytes()).expect("standard error");
                return None;
            }
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("jeton-clients-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        // target/<profile>/deps/clients-…: cargo has built the library beside it.
        let module = std::env::current_exe().expect("a path").with_file_name("libjeton_pkcs11.so");
        Some(Self { directory, module })
    }

    /// The same with a token `desk`, whose PINs are set by `pkcs11-tool`.
    fn with_token(programs: &[&str]) -> Option<Self> {
        let desk = Self::with(programs)?;
        let initialised =
            desk.pkcs11(&["--init-token", "--slot-index", "0", "--label", "desk", "--so-pin", SO_PIN]);
        assert!(initialised.expect().contains("Token successfully initialized"));
        let officer = ["--token-label", "desk", "--login", "--login-type", "so", "--so-pin", SO_PIN];
        let set = desk.pkcs11(&[&officer[..], &["--init-pin", "--pin", PIN]].concat());
        assert!(set.expect().contains("User PIN successfully initialized"));
        Some(desk)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Said {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        command.env("JETON_DIR", &self.directory).env_remove("JETON_CONF").env("GNUTLS_PIN", PIN);
        said(&mut command)
    }

    fn pkcs11(&self, arguments: &[&str]) -> Said {
        let module = self.module.to_str().expect("a path in UTF-8");
        self.run("pkcs11-tool", &[&["--module", module], arguments].concat())
    }

    /// `pkcs11-tool` with the user logged in.
    fn user(&self, arguments: &[&str]) -> Said {
        self.pkcs11(&[&["--token-label", "desk", "--login", "--pin", PIN], arguments].concat())
    }

    fn openssl(&self, arguments: &str) -> Said {
        self.run("openssl", &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// A self-signed certificate in DER, by OpenSSL alone.
    fn certificate(&self, name: &str) {
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -days 7 \
                       -subj /CN=desk -outform DER -out";
        self.openssl(&format!("{request} {name}")).expect();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).expect("the directory of a test");
    }
}

impl Said {
    /// What a program said that succeeded.
    #[track_caller]
    fn expect(self) -> String {
        assert!(self.ok, "{}", self.text);
        self.text
    }

    /// What a program said that failed.
    #[track_caller]
    fn refused(self) -> String {
        assert!(!self.ok, "{}", self.text);
        self.text
    }
}

fn said(command: &mut Command) -> Said {
    let output = command.env("LC_ALL", "C").output().expect("a program that was there a moment ago");
    let text = [output.stdout, output.stderr].concat();
    Said { ok: output.status.success(), text: String::from_utf8_lossy(&text).into_owned() }
}

fn occurrences(text: &str, of: &str) -> usize {
    text.matches(of).count()
}

/// Key type, identifier, mechanism, more words for the signature, OpenSSL's words for its verification.
const SIGNATURES: [(&str, &str, &str, &[&str], &str); 5] = [
    ("rsa:2048", "01", "SHA256-RSA-PKCS", &[], "dgst -sha256 -verify KEY -signature SIG message"),
    (
        "rsa:2048",
        "01",
        "SHA384-RSA-PKCS-PSS",
        &[],
        "dgst -sha384 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:48 -verify KEY -signature SIG message",
    ),
    (
        "EC:prime256v1",
        "02",
        "ECDSA-SHA256",
        &["--signature-format", "openssl"],
        "dgst -sha256 -verify KEY -signature SIG message",
    ),
    (
        "EC:secp521r1",
        "03",
        "ECDSA-SHA512",
        &["--signature-format", "openssl"],
        "dgst -sha512 -verify KEY -signature SIG message",
    ),
    (
        "EC:edwards25519",
        "04",
        "EDDSA",
        &[],
        "pkeyutl -verify -pubin -inkey KEY -rawin -in message -sigfile SIG",
    ),
];

#[test]
fn openssl_verifies_what_pkcs11_tool_signs_with_keys_of_the_token() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool", "openssl"]) else { return };
    fs::write(desk.path("message"), MESSAGE).expect("a message");
    let mut made = Vec::new();
    for (key_type, id, ..) in SIGNATURES {
        if !made.contains(&id) {
            made.push(id);
            desk.user(&["--keypairgen", "--key-type", key_type, "--id", id, "--label", key_type]).expect();
        }
    }

    // Other processes see the public halves without the PIN, and all with it.
    let seen = desk.pkcs11(&["--token-label", "desk", "--list-objects"]).expect();
    assert_eq!(occurrences(&seen, "Public Key Object"), made.len(), "{seen}");
    assert_eq!(occurrences(&seen, "Private Key Object"), 0, "{seen}");
    let seen = desk.user(&["--list-objects"]).expect();
    assert_eq!(occurrences(&seen, "Private Key Object"), made.len(), "{seen}");
    let never = "sensitive, always sensitive, never extractable, local";
    assert_eq!(occurrences(&seen, never), made.len(), "{seen}");

    for (_, id, mechanism, format, verification) in SIGNATURES {
        let sign = ["--sign", "--mechanism", mechanism, "--id", id, "-i", "message", "-o", "signature"];
        desk.user(&[&sign[..], format].concat()).expect();
        let read = ["--token-label", "desk", "--read-object", "--type", "pubkey", "--id", id, "-o", "public"];
        desk.pkcs11(&read).expect();
        desk.openssl("pkey -pubin -in public -out public.pem").expect();
        let verification = verification.replace("KEY", "public.pem").replace("SIG", "signature");
        let said = desk.openssl(&verification).expect();
        assert!(said.contains("Verified OK") || said.contains("Signature Verified Successfully"), "{said}");

        fs::write(desk.path("message"), b"another message").expect("a message");
        desk.openssl(&verification).refused();
        fs::write(desk.path("message"), MESSAGE).expect("a message");
    }
}

#[test]
fn pkcs11_tool_names_a_wrong_pin_and_a_locked_one() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool"]) else { return };
    let wrong = ["--token-label", "desk", "--login", "--pin", "not this", "--list-objects"];
    assert!(desk.pkcs11(&wrong).refused().contains("CKR_PIN_INCORRECT"));
    let slots = desk.pkcs11(&["--list-slots"]).expect();
    assert!(slots.contains("user PIN count low"), "{slots}");
    // Ten wrong ones in a row, in ten processes, lock it.
    for _ in 1..10 {
        assert!(desk.pkcs11(&wrong).refused().contains("CKR_PIN_INCORRECT"));
    }
    assert!(desk.user(&["--list-objects"]).refused().contains("CKR_PIN_LOCKED"));
}

#[test]
fn the_tests_of_pkcs11_tool_find_no_errors() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool"]) else { return };
    desk.user(&["--keypairgen", "--key-type", "rsa:2048", "--id", "01"]).expect();
    let said = desk.user(&["--test"]).expect();
    for line in ["all 4 digest functions seem to work", "RSA-X-509: OK", "RSA-PKCS: OK", "No errors"] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn pkcs11_tool_writes_objects_and_reads_them_back() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool", "openssl"]) else { return };
    desk.certificate("certificate");
    let same = |kind: &str, name: &str| {
        let reads = ["--read-object", "--type", kind, "--label", "a label", "-o", "read"];
        desk.pkcs11(&[&["--token-label", "desk"], &reads[..]].concat()).expect();
        assert_eq!(fs::read(desk.path("read")).expect("a file"), fs::read(desk.path(name)).expect("a file"));
    };
    let write = ["--write-object", "certificate", "--id", "07", "--label", "a label", "--type"];
    let said = desk.user(&[&write[..], &["cert"]].concat()).expect();
    assert!(said.contains("CN=desk"), "{said}");
    same("cert", "certificate");
    desk.user(&[&write[..], &["data"]].concat()).expect();
    same("data", "certificate");

    desk.openssl("pkey -in key.pem -outform DER -out key").expect();
    let write = ["--write-object", "key", "--id", "08", "--type", "privkey", "--usage-sign"];
    desk.user(&write).expect();
    fs::write(desk.path("message"), MESSAGE).expect("a message");
    let sign = ["--sign", "-m", "ECDSA-SHA256", "--id", "08", "-i", "message", "-o", "signature"];
    desk.user(&[&sign[..], &["--signature-format", "openssl"]].concat()).expect();
    desk.openssl("pkey -in key.pem -pubout -out public.pem").expect();
    desk.openssl("dgst -sha256 -verify public.pem -signature signature message").expect();

    desk.user(&["--delete-object", "--type", "cert", "--id", "07"]).expect();
    let seen = desk.user(&["--list-objects"]).expect();
    assert_eq!(occurrences(&seen, "Certificate Object"), 0, "{seen}");
}

#[test]
fn pkcs11_tool_lists_the_mechanisms() {
    let Some(desk) = Desk::with(&["pkcs11-tool"]) else { return };
    let said = desk.pkcs11(&["--list-mechanisms"]).expect();
    for line in [
        "RSA-PKCS-KEY-PAIR-GEN, keySize={2048,8192}, generate_key_pair",
        "SHA256-RSA-PKCS-PSS, keySize={2048,8192}, sign, verify",
        "ECDSA-SHA256, keySize={224,521}, sign, verify, EC F_P, EC OID, EC uncompressed, EC curve name",
        "EDDSA, keySize={255,448}, sign, verify",
        "AES-KEY-GEN, keySize={16,32}, generate",
        "SHA512, digest",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn a_wrong_configuration_is_named_with_file_key_and_reason() {
    let Some(desk) = Desk::with(&["pkcs11-tool"]) else { return };
    let file = desk.path("jeton.toml");
    for (text, key, reason) in [
        ("backend = 'openssl'\n", "backend", "openssl"),
        ("[pin]\nretry = 3\n", "retry", "unknown field"),
        ("[mechanisms]\ndeny = ['CKM_NONE']\n", "mechanisms.deny", "CKM_NONE"),
    ] {
        fs::write(&file, text).expect("a file");
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(&desk.module).arg("--list-slots");
        command.env("JETON_CONF", &file).env("JETON_DIR", &desk.directory);
        let said = said(&mut command).refused();
        for part in [&file, key, reason, "CKR_GENERAL_ERROR"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn gnutls_makes_keys_and_signs_with_them() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool", "p11tool"]) else { return };
    let module = desk.module.to_str().expect("a path in UTF-8").to_owned();
    let p11tool =
        |words: &[&str]| desk.run("p11tool", &[&["--provider", &module, "--login"], words].concat());
    for (kind, more) in [("rsa", ["--bits", "2048"]), ("ecdsa", ["--curve", "secp384r1"])] {
        let generate = ["--generate-privkey", kind, "--label", kind];
        p11tool(&[&generate[..], &more, &["pkcs11:token=desk"]].concat()).expect();
        let said =
            p11tool(&["--test-sign", &format!("pkcs11:token=desk;object={kind};type=private")]).expect();
        assert_eq!(occurrences(&said, "... ok"), 3, "{said}");
    }
}

#[test]
fn nss_keeps_a_certificate_and_its_key_on_the_token() {
    let Some(desk) = Desk::with_token(&["pkcs11-tool", "certutil", "modutil"]) else { return };
    let module = desk.module.to_str().expect("a path in UTF-8").to_owned();
    fs::create_dir(desk.path("nss")).expect("a directory");
    fs::write(desk.path("pin"), format!("{PIN}\n")).expect("a file");
    fs::write(desk.path("noise"), [0x5a; 64]).expect("a file");
    let nss = |program: &str, words: &str| {
        let words: Vec<_> = words.split_whitespace().chain(["-d", "sql:nss"]).collect();
        desk.run(program, &words)
    };
    nss("certutil", "-N --empty-password").expect();
    desk.run("modutil", &["-force", "-dbdir", "sql:nss", "-add", "jeton", "-libfile", &module]).expect();
    let token = "-h desk -f pin";
    for (name, key) in [("in-ec", "-k ec -q nistp256"), ("in-rsa", "-k rsa -g 2048")] {
        nss("certutil", &format!("-S {token} -n {name} -s CN={name} -x -t ,, {key} -z noise")).expect();
        nss("certutil", &format!("-L {token} -n desk:{name} -r -o {name}.der")).expect();
        assert_ne!(fs::read(Path::new(&desk.path(&format!("{name}.der")))).expect("a certificate"), []);
        desk.openssl(&format!("x509 -in {name}.der -out {name}.pem")).expect();
        let said = desk.openssl(&format!("verify -check_ss_sig -CAfile {name}.pem {name}.pem")).expect();
        assert!(said.contains(": OK"), "{said}");
    }
    let keys = nss("certutil", &format!("-K {token}")).expect();
    assert!(keys.contains("desk:in-ec") && keys.contains("desk:in-rsa"), "{keys}");
}
