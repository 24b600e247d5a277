//! Stores that the installed modules make, with the types of keys listed below.
//!
//! With `JETON_KEEP_STORES=DIRECTORY` the tests leave copies of the stores in this directory.
//! `stores/README.md` says which of them are in the repository.

use super::migration::{Migration, copy};
use super::*;

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

pub struct Old {
    /// A directory. The store is in its subdirectory `old`.
    pub scratch: Scratch,
    module: Known,
    /// The number of objects in the store, and of private keys.
    pub objects: usize,
    pub pairs: usize,
    /// Options of the tool that choose the token.
    chosen: Vec<String>,
    environment: Option<(&'static str, PathBuf)>,
}

impl Old {
    /// Initialises a token, and fills it. `None` if a program is absent, or if the module makes no
    /// token.
    pub fn new(module: Known, backend: &str) -> Option<Self> {
        peer(Known::Jeton)?;
        peer(module)?;
        has("openssl").then_some(())?;
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
        let mut old = Self { scratch, module, objects: 0, pairs: 0, chosen, environment };
        if !old.initialise() {
            return None;
        }
        (old.objects, old.pairs) = old.fill();
        Some(old)
    }

    fn initialise(&self) -> bool {
        if self.module == Known::Nss {
            let pin = self.scratch.file("pin");
            fs::write(&pin, PIN).expect("a file");
            let directory = format!("sql:{}", self.scratch.file("old"));
            return has("certutil") && {
                succeed(Command::new("certutil").args(["-N", "-d", &directory, "-f", &pin]));
                true
            };
        }
        let mut command = self.command(&["token", "init", "--label", "old"]);
        let (code, text) = run(command.env("JETON_SO_PIN", "12345678"));
        if code != 0 {
            // SoftHSMv2 of Debian is built without the SQLite backend.
            skip(format_args!("the module does not make a token: {}", text.trim()));
        }
        code == 0
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = jeton(arguments);
        command.env("JETON_PIN", PIN).arg("--module").arg(self.module.library().expect("the module"));
        command.envs(self.environment.clone());
        command
    }

    /// Returns the tool for the token of the old module.
    pub fn on_token(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.args(&self.chosen);
        command
    }

    /// Returns pkcs11-tool, logged in to the old token.
    fn pkcs11_tool(&self) -> Command {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(self.module.library().expect("the module"));
        command.envs(self.environment.clone()).args(["--login", "--pin", PIN, "--token-label", "old"]);
        command
    }

    /// Generates all keys, and adds a certificate and, where the module takes them, data
    /// objects. Returns the numbers of objects and of private keys.
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
        if self.module != Known::Nss && has("pkcs11-tool") {
            fs::write(file("data"), "some data").expect("a file");
            for access in ["", "--private"] {
                let mut command = self.pkcs11_tool();
                command.args(["--write-object", &file("data"), "--type", "data"]);
                command.args(["--label", &format!("data{access}"), "--application-label", "tests"]);
                succeed(command.args(Some(access).filter(|access| !access.is_empty())));
                objects += 1;
            }
        }
        if self.module == Known::SoftHsm2 && has("pkcs11-tool") {
            for (label, id) in [("always-auth", "a0"), ("extractable", "e0")] {
                let mut command = self.pkcs11_tool();
                command.args(["--keypairgen", "--key-type", "rsa:2048", "--label", label, "--id", id]);
                succeed(command.arg(format!("--{label}")));
                objects += 2;
                pairs += 1;
            }
        }
        (objects, pairs)
    }

    /// Leaves a copy of the store if the environment asks for one.
    pub fn keep(&self, name: &str) {
        if let Some(directory) = std::env::var_os("JETON_KEEP_STORES") {
            copy(&self.scratch.path().join("old"), &Path::new(&directory).join(name));
        }
    }

    /// Returns a copy of the store.
    pub fn migration(&self) -> Migration {
        let store = self.scratch.path().join("old");
        match self.module {
            Known::Kryoptic => Migration::of_file(&store, "token.sql"),
            _ => Migration::of(&store),
        }
    }
}
