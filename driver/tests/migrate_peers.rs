//! `jeton migrate`: stores that the installed modules make, with the types of keys listed below.
//! The attributes of each object are read through both modules and compared.
//!
//! With `JETON_KEEP_STORES=DIRECTORY` the tests leave copies of the stores in this directory.
//! `stores/README.md` says which of them are in the repository.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::migration::{Migration, PIN, copy, fingerprint};
use common::{Scratch, has, jeton, peer, run, succeed};
use jeton_peers::Known;

/// The keys that every module generates.
const COMMON: [&str; 9] = [
    "rsa:1024",
    "rsa:2048",
    "rsa:3072",
    "rsa:4096",
    "ec:p256",
    "ec:p384",
    "ec:p521",
    "aes:256",
    "generic:32",
];

/// The keys that only some modules generate.
const SOME: [&str; 8] =
    ["ed25519", "x25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87", "ml-kem-512", "ml-kem-768", "ml-kem-1024"];

/// The attributes that may differ in the new token. `docs/migration.md` has the reasons.
const DIFFERENT: [&str; 15] = [
    "CKA_UNIQUE_ID",
    "CKA_LOCAL",
    "CKA_KEY_GEN_MECHANISM",
    "CKA_ALWAYS_SENSITIVE",
    "CKA_NEVER_EXTRACTABLE",
    "CKA_MODULUS_BITS",
    "CKA_VALUE_LEN",
    "CKA_PRIME_BITS",
    "CKA_SUBPRIME_BITS",
    "CKA_CHECK_VALUE",
    "CKA_EC_PARAMS",
    "CKA_EC_POINT",
    "CKA_KEY_TYPE",
    // Some modules do not show these attributes.
    "CKA_PUBLIC_KEY_INFO",
    "CKA_ALLOWED_MECHANISMS",
];

/// A module with a store of its own.
struct Old {
    scratch: Scratch,
    module: Known,
    /// Options of the tool that choose the token.
    chosen: Vec<String>,
    environment: Option<(&'static str, PathBuf)>,
}

impl Old {
    /// Initialises a token. `None` if a program is absent, or if the module makes no token.
    fn new(module: Known, backend: &str) -> Option<Self> {
        peer(Known::Jeton)?;
        peer(module)?;
        let scratch = Scratch::new();
        let store = scratch.file("old");
        let (mut chosen, mut environment) = (vec!["--token".to_owned(), "old".to_owned()], None);
        let mut configure = |variable, text: String| {
            let path = scratch.path().join("configuration");
            fs::write(&path, text).expect("a file");
            environment = Some((variable, path));
        };
        match module {
            Known::Nss => {
                let parameters =
                    format!("configdir='sql:{store}' certPrefix='' keyPrefix='' secmod='secmod.db' flags=");
                chosen = ["--slot", "2", "--parameters", &parameters].map(str::to_owned).to_vec();
            }
            Known::Kryoptic => {
                let text =
                    format!("[[slots]]\nslot = 1\ndbtype = \"sqlite\"\ndbargs = \"{store}/token.sql\"\n");
                configure("KRYOPTIC_CONF", text);
            }
            _ => {
                let text = format!("directories.tokendir = {store}\nobjectstore.backend = {backend}\n");
                configure("SOFTHSM2_CONF", text);
            }
        }
        fs::create_dir(&store).expect("a directory");
        let old = Self { scratch, module, chosen, environment };
        old.initialise().then_some(old)
    }

    fn initialise(&self) -> bool {
        if self.module == Known::Nss {
            let pin = self.scratch.file("pin");
            fs::write(&pin, PIN).expect("a file");
            let directory = format!("sql:{}", self.scratch.file("old"));
            return has("certutil", "-H") && {
                succeed(Command::new("certutil").args(["-N", "-d", &directory, "-f", &pin]));
                true
            };
        }
        let mut command = self.command(&["token", "init", "--label", "old"]);
        let (code, text) = run(command.env("JETON_SO_PIN", "12345678"));
        if code != 0 {
            // SoftHSMv2 of Debian is built without the SQLite backend.
            println!("skipped: the module does not make a token: {text}");
        }
        code == 0
    }

    /// Returns the tool for the old module.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = jeton(arguments);
        command.env("JETON_PIN", PIN).arg("--module").arg(self.module.library().expect("the module"));
        command.envs(self.environment.clone());
        command
    }

    /// Returns the tool for the token of the old module.
    fn on_token(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.args(&self.chosen);
        command
    }

    /// Generates all keys, and adds a certificate and, where the module takes them, data objects
    /// and a DSA key. Returns the numbers of objects and of private keys.
    fn fill(&self) -> (usize, usize) {
        let (mut objects, mut pairs) = (0, 0);
        for (number, kind) in COMMON.iter().chain(&SOME).enumerate() {
            let id = format!("{:02x}", number + 1);
            let (code, text) =
                run(&mut self.on_token(&["key", "generate", "--type", kind, "--label", kind, "--id", &id]));
            assert!(code == 0 || SOME.contains(kind), "{kind}: {text}");
            if code == 0 {
                let is_secret = kind.starts_with("aes") || kind.starts_with("generic");
                objects += if is_secret { 1 } else { 2 };
                pairs += usize::from(!is_secret);
            }
        }
        let file = |name| self.scratch.file(name);
        let certificate = file("certificate");
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-keyout", &file("key"), "-out", &certificate, "-subj", "/CN=old", "-days", "9"]);
        succeed(&mut command);
        succeed(&mut self.on_token(&["cert", "import", &certificate, "--label", "cert", "--id", "c0"]));
        objects += 1;
        // NSS stores no data objects.
        if self.module != Known::Nss && has("pkcs11-tool", "--version") {
            fs::write(file("data"), "some data").expect("a file");
            for access in ["", "--private"] {
                let mut command = Command::new("pkcs11-tool");
                command.arg("--module").arg(self.module.library().expect("the module"));
                command.envs(self.environment.clone()).args([
                    "--login",
                    "--pin",
                    PIN,
                    "--token-label",
                    "old",
                ]);
                command.args(["--write-object", &file("data"), "--type", "data"]);
                command.args(["--label", &format!("data{access}"), "--application-label", "tests"]);
                succeed(command.args(Some(access).filter(|access| !access.is_empty())));
                objects += 1;
            }
        }
        if self.module == Known::SoftHsm2 && has("softhsm2-util", "--version") && self.import_dsa() {
            objects += 2;
            pairs += 1;
        }
        (objects, pairs)
    }

    /// Imports a DSA key into the old token with softhsm2-util. Returns whether this succeeded.
    fn import_dsa(&self) -> bool {
        let file = |name| self.scratch.file(name);
        let openssl = |arguments: &[&str]| succeed(Command::new("openssl").args(arguments));
        openssl(&["dsaparam", "-out", &file("group"), "2048"]);
        openssl(&["gendsa", "-out", &file("dsa"), &file("group")]);
        openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", &file("dsa"), "-out", &file("pkcs8")]);
        let mut command = Command::new("softhsm2-util");
        command.args(["--import", &file("pkcs8"), "--token", "old", "--pin", PIN, "--label", "dsa"]);
        command.args(["--id", "5d", "--module"]).arg(self.module.library().expect("the module"));
        run(command.envs(self.environment.clone())).0 == 0
    }

    /// Leaves a copy of the store if the environment asks for one.
    fn keep(&self, name: &str) {
        if let Some(directory) = std::env::var_os("JETON_KEEP_STORES") {
            copy(&self.scratch.path().join("old"), &Path::new(&directory).join(name));
        }
    }

    fn migration(&self) -> Migration {
        let store = self.scratch.path().join("old");
        let migration = match self.module {
            Known::Kryoptic => Migration::of_file(&store, "token.sql"),
            _ => Migration::of(&store),
        };
        let text = "[pin]\nmemory-kib = 8\npasses = 1\n[mechanisms]\nlegacy = true\n";
        fs::write(migration.scratch.file("conf"), text).expect("a file");
        migration
    }
}

/// The attributes of an object: the names, and the values in hexadecimal digits.
type Attributes = BTreeMap<String, String>;

/// Returns the attributes of every object that a command of the tool lists. The keys of the map are
/// class, label and ID.
fn objects(command: impl Fn(&[&str]) -> Command) -> BTreeMap<(String, String, String), Attributes> {
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (code, text) = run(&mut command(arguments));
        assert_eq!(code, 0, "{arguments:?}: {text}");
        serde_json::from_str(&text).expect("JSON")
    };
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let mut all = BTreeMap::new();
    for object in json(&["object", "list", "--json"]).as_array().expect("a list") {
        let [class, label, id] = ["class", "label", "id"].map(|name| text(&object[name]));
        // Kryoptic lists its mechanisms and profiles, and NSS the trust in certificates.
        if class.starts_with("class") {
            continue;
        }
        let mut show = vec!["object", "show", "--json", "--class", &class, "--label", &label];
        if !id.is_empty() {
            show.extend(["--id", &id]);
        }
        let shown = json(&show);
        let attributes = shown.as_array().expect("a list").iter();
        let attributes = attributes.map(|one| (text(&one["attribute"]), text(&one["value"]))).collect();
        assert!(all.insert((class, label, id), attributes).is_none());
    }
    all
}

/// Migrates a store, and compares the attributes of every object through both modules.
fn check(old: &Old, name: &str) {
    let (count, pairs) = old.fill();
    old.keep(name);
    let migration = old.migration();
    let before = fingerprint(Path::new(&migration.old()));
    let text = succeed(&mut migration.command(&["--label", "new"]));
    println!("{name}: {text}");
    let all = format!("{count} of {count} objects are migrated; {pairs} of {pairs} private keys are proved");
    assert!(text.contains(&all), "{text}");
    let text = succeed(&mut migration.command(&["--label", "new"]));
    assert!(text.contains(&format!("all {count} objects already")), "{text}");
    assert_eq!(fingerprint(Path::new(&migration.old())), before);

    let there = objects(|arguments| old.on_token(arguments));
    let here = objects(|arguments| {
        let mut command = jeton(arguments);
        command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", migration.scratch.file("conf"));
        command.env("JETON_PIN", PIN).args(["--token", "new"]);
        command
    });
    assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
    assert_eq!(here.len(), count);
    let mut different = BTreeSet::new();
    for (object, attributes) in &there {
        for (attribute, value) in attributes {
            let new = here[object].get(attribute);
            let integer = |value: &str| value.trim_start_matches("00").to_owned();
            if new.map(|new| integer(new)) != Some(integer(value)) {
                different.insert(attribute.as_str());
                let known = DIFFERENT.contains(&attribute.as_str());
                // The new token may lack an attribute whose old value is zero, such as a flag that
                // is false.
                let absent = new.is_none() && value.bytes().all(|digit| digit == b'0');
                assert!(known || absent, "{object:?}: {attribute} was {value} and is {new:?}");
            }
        }
    }
    println!("{name}: {count} objects, {pairs} pairs; different: {different:?}");
}

#[test]
fn softhsm_file_backend_is_migrated_with_equal_attributes() {
    if let Some(old) = Old::new(Known::SoftHsm2, "file") {
        check(&old, "softhsm-file");
    }
}

#[test]
fn softhsm_sqlite_backend_is_migrated_with_equal_attributes() {
    if let Some(old) = Old::new(Known::SoftHsm2, "db") {
        check(&old, "softhsm-sqlite");
    }
}

#[test]
fn nss_is_migrated_with_equal_attributes() {
    if let Some(old) = Old::new(Known::Nss, "") {
        check(&old, "nss");
    }
}

#[test]
fn kryoptic_is_migrated_with_equal_attributes() {
    if let Some(old) = Old::new(Known::Kryoptic, "") {
        check(&old, "kryoptic");
    }
}
