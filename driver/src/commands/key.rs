//! `key`: generate, import, export, wrap and unwrap.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use cryptoki_sys::*;
use jeton_driver::Error;
use jeton_driver::certificate::key_id;
use jeton_driver::client::{Access, Attribute, Mechanism, ObjectHandle, Session, Structure};
use jeton_driver::formats::{self, Item, Password, PublicForm};
use jeton_driver::import::{self, Duplicates, Naming, Protection};
use jeton_driver::key_type::{self, KeyType, Shape, Usage};
use jeton_driver::object::{bytes, describe, number, public_key_info};
use jeton_driver::text::hex;
use jeton_driver::token_file;
use zeroize::Zeroizing;

use super::object::show;
use super::out::{self, Output};
use super::pin::{self, FilePin, UserPin};
use super::target::{Chosen, Need, Objects, Opened, Target, id_of};

/// The keys of a token.
#[derive(Args)]
pub struct Key {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Generate a key or a key pair.
    Generate(Generate),
    /// Import keys and certificates from a file.
    Import(Import),
    /// Write a public key to a file.
    Export(Export),
    /// Encrypt a key with another key of the token.
    Wrap(Wrap),
    /// Import a key that was encrypted with a key of the token.
    Unwrap(Unwrap),
}

impl Key {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.what {
            What::Generate(command) => command.run(),
            What::Import(command) => command.run(),
            What::Export(command) => command.run(),
            What::Wrap(command) => command.run(),
            What::Unwrap(command) => command.run(),
        }
    }
}

#[derive(Args)]
struct Generate {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    /// The type of the key.
    #[arg(long = "type", value_name = "TYPE", long_help = key_type::NAMES)]
    kind: String,
    /// The label.
    #[arg(long)]
    label: String,
    /// The ID in hexadecimal digits. Without it, 8 random bytes.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// What the key may do: sign, decrypt, wrap, derive, decapsulate. The default depends on the
    /// type.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the private or secret key to be wrapped.
    #[arg(long)]
    extractable: bool,
}

impl Generate {
    fn run(self) -> Result<ExitCode, Error> {
        let kind = KeyType::parse(&self.kind)?;
        let usages = usages(&self.usage, kind.usages)?;
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let id = match &self.id {
            Some(id) => id_of(id)?,
            None => random_id(&session)?,
        };
        let common = [
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, self.label.as_bytes()),
            Attribute::bytes(CKA_ID, id),
        ];
        let secret = [
            Attribute::flag(CKA_PRIVATE, true),
            Attribute::flag(CKA_SENSITIVE, true),
            Attribute::flag(CKA_EXTRACTABLE, self.extractable),
        ];
        let made = match kind.shape {
            Shape::Secret => {
                let mut template = [&common[..], &secret, &kind.parameters].concat();
                for usage in usages {
                    let (one, two) = usage.attributes();
                    template.push(Attribute::flag(one, true));
                    template.extend((one != two).then(|| Attribute::flag(two, true)));
                }
                vec![session.generate_key(&kind.mechanism, &template)?]
            }
            Shape::Pair => {
                let (mut public, mut private) =
                    ([&common[..], &kind.parameters].concat(), [&common[..], &secret].concat());
                for usage in usages {
                    let (of_public, of_private) = usage.attributes();
                    public.push(Attribute::flag(of_public, true));
                    private.push(Attribute::flag(of_private, true));
                }
                let (public, private) = session.generate_key_pair(&kind.mechanism, &public, &private)?;
                vec![private, public]
            }
        };
        made.into_iter().try_for_each(|object| show(&describe(&session, &opened.info, object)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads `--usage`.
fn usages(names: &[String], default: &[Usage]) -> Result<Vec<Usage>, Error> {
    if names.is_empty() {
        return Ok(default.to_vec());
    }
    names.iter().map(|name| Usage::parse(name)).collect()
}

fn random_id(session: &Session) -> Result<Vec<u8>, Error> {
    let mut id = vec![0; 8];
    session.random(&mut id)?;
    Ok(id)
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportType {
    /// Key pairs, public keys and certificates.
    Keypair,
    /// An AES key: raw bytes, or hexadecimal digits.
    Aes,
    /// A generic secret: raw bytes, or hexadecimal digits.
    Generic,
    /// Certificates.
    Cert,
}

/// Import keys and certificates from a file.
///
/// Private keys are read in PKCS#8 (plain or encrypted), PKCS#1, SEC1, PKCS#12, OpenSSH's format
/// and BIND's `.private` format; certificates and public keys in X.509; each in PEM or DER.
#[derive(Args)]
pub struct Import {
    /// The file, or - for standard input.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    #[command(flatten)]
    file_pin: FilePin,
    /// The label. Without it, the name that the file gives.
    #[arg(long)]
    label: Option<String>,
    /// The ID in hexadecimal digits. Without it, the identifier of the public key.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// What the file holds.
    #[arg(long = "type", alias = "import-type", value_enum, default_value = "keypair")]
    kind: ImportType,
    /// The same as --type aes.
    #[arg(long)]
    aes: bool,
    /// What the keys may do: sign, decrypt, wrap, derive, decapsulate. The default depends on the
    /// type.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the private or secret key to be wrapped.
    #[arg(long)]
    extractable: bool,
    /// Import the private key without its public key.
    #[arg(long, alias = "no-public-key")]
    private_only: bool,
    /// Import even if the token has an object with this ID.
    #[arg(long)]
    force: bool,
}

impl Import {
    fn run_with(&self, kind: ImportType) -> Result<ExitCode, Error> {
        // The file is read before the token is opened: a damaged file changes nothing.
        let file = Zeroizing::new(out::input(&self.file, formats::MAX_FILE)?);
        let opened = match kind {
            ImportType::Aes | ImportType::Generic => return self.secret(&file, kind),
            ImportType::Keypair | ImportType::Cert => self.read(&file, kind)?,
        };
        let target = self.target.open(None)?;
        let session = target.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let mut made = Vec::new();
        for found in &opened {
            match self.import(&session, found) {
                Ok(object) => made.push(object),
                Err(error) => {
                    // A file is imported as a whole or not at all.
                    made.into_iter().try_for_each(|objects| remove(&session, objects))?;
                    return Err(error);
                }
            }
        }
        for object in made.into_iter().flatten() {
            show(&describe(&session, &target.info, object))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        self.run_with(if self.aes { ImportType::Aes } else { self.kind })
    }

    /// Runs the command for certificates alone.
    pub fn run_certificates(self) -> Result<ExitCode, Error> {
        self.run_with(ImportType::Cert)
    }

    fn read(&self, file: &[u8], kind: ImportType) -> Result<Vec<Found>, Error> {
        let mut failed = None;
        let mut ask = || {
            let password = self.file_pin.given().and_then(|given| match given {
                Some(password) => Ok(password),
                None => pin::ask_file(&self.file),
            });
            password.map_err(|error| failed = Some(error)).ok()
        };
        let entries = formats::read(file, &mut Password::new(&mut ask));
        let entries = match (entries, failed) {
            (Err(_), Some(error)) => return Err(error),
            (entries, _) => entries.map_err(|source| Error::KeyFile { path: self.file.clone(), source })?,
        };
        let certificate = |entry: &formats::Entry| matches!(entry.item, Item::Certificate(_));
        let wanted = entries.into_iter().filter(|entry| kind != ImportType::Cert || certificate(entry));
        let found = wanted.map(|entry| Found::of(entry.item, entry.name)).collect::<Result<Vec<_>, _>>()?;
        named(found, self)
    }

    /// Creates the objects of one item of the file.
    fn import(&self, session: &Session, found: &Found) -> Result<Vec<ObjectHandle>, Error> {
        let naming = self.naming(found)?;
        match &found.contents {
            Contents::Pair(pair) => {
                let kind = pair_kind(&pair.public);
                let usages = usages(&self.usage, kind)?;
                let public = !self.private_only;
                let private = import::key_pair(session, pair, &naming, self.protection(), &usages, public)?;
                let beside = if public { jeton_driver::object::partner(session, private) } else { None };
                Ok([Some(private), beside].into_iter().flatten().collect())
            }
            Contents::Certificate(der) => Ok(vec![import::certificate(session, der, &naming)?]),
        }
    }

    /// Returns the label and the ID of an item. Those of the user are for the key and its
    /// certificate. Other certificates of a chain have their own.
    fn naming(&self, found: &Found) -> Result<Naming, Error> {
        let own = self.label.as_ref().filter(|_| found.is_first);
        let label = own.or(found.name.as_ref()).cloned().unwrap_or_default();
        let id = self.id.as_deref().filter(|_| found.is_first).map(id_of).transpose()?;
        let duplicates = if self.force { Duplicates::Allowed } else { Duplicates::Refused };
        Ok(Naming { label, id: id.unwrap_or_else(|| found.key_id.clone()), duplicates })
    }

    fn protection(&self) -> Protection {
        if self.extractable { Protection::Extractable } else { Protection::Sensitive }
    }

    fn secret(&self, file: &[u8], kind: ImportType) -> Result<ExitCode, Error> {
        let generic: Vec<usize> = (1..=1024).collect();
        let (lengths, class, default): (&[usize], _, &[Usage]) = match kind {
            ImportType::Generic => (&generic, CKK_GENERIC_SECRET, &[Usage::Sign, Usage::Derive]),
            _ => (&[16, 24, 32], CKK_AES, &[Usage::Decrypt, Usage::Wrap]),
        };
        let refused = |source| Error::KeyFile { path: self.file.clone(), source };
        let value = formats::secret_key(file, lengths).map_err(refused)?;
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let id = match &self.id {
            Some(id) => id_of(id)?,
            None => random_id(&session)?,
        };
        let duplicates = if self.force { Duplicates::Allowed } else { Duplicates::Refused };
        let naming = Naming { label: self.label.clone().unwrap_or_default(), id, duplicates };
        let usages = usages(&self.usage, default)?;
        let key = import::secret_key(&session, class, &value, &naming, self.protection(), &usages)?;
        show(&describe(&session, &opened.info, key))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Decides which items --label and --id are for: the first key, and the certificate of this key.
fn named(mut found: Vec<Found>, import: &Import) -> Result<Vec<Found>, Error> {
    let leader = found.iter().find(|one| !one.is_certificate()).or(found.first());
    let Some(leader) = leader.map(|one| one.key_id.clone()) else {
        return Err(Error::Failed(format!("{} has no certificate", import.file.display())));
    };
    if import.id.is_some() && found.iter().any(|other| other.key_id != leader && !other.is_certificate()) {
        return Err(Error::Usage("the file has several keys, which cannot share one --id".to_owned()));
    }
    for one in &mut found {
        one.is_first = one.key_id == leader;
    }
    Ok(found)
}

fn remove(session: &Session, objects: Vec<ObjectHandle>) -> Result<(), Error> {
    objects.into_iter().try_for_each(|object| session.destroy_object(object)).map_err(Error::from)
}

/// What an item of a file becomes.
enum Contents {
    Pair(Box<token_file::KeyPair>),
    Certificate(Vec<u8>),
}

/// An item of a file with its names.
struct Found {
    contents: Contents,
    name: Option<String>,
    key_id: Vec<u8>,
    /// Whether the options --label and --id are for it.
    is_first: bool,
}

impl Found {
    fn of(item: Item, name: Option<String>) -> Result<Self, Error> {
        let (contents, info, title) = match item {
            Item::PrivateKey(der) => {
                let pair = token_file::read_private_key(&der)?;
                let info = pair.public_key_info.clone();
                (Contents::Pair(Box::new(pair)), info, None)
            }
            Item::Certificate(der) => {
                let info = jeton_driver::certificate::public_key_of(&der)?;
                let title = jeton_driver::certificate::names(&der)?.title;
                (Contents::Certificate(der), info, Some(title))
            }
            Item::PublicKey(_) => {
                return Err(Error::Failed(
                    "a public key alone is not imported: import its private key or its certificate"
                        .to_owned(),
                ));
            }
        };
        Ok(Self { contents, key_id: key_id(&info)?, name: name.or(title), is_first: true })
    }

    fn is_certificate(&self) -> bool {
        matches!(self.contents, Contents::Certificate(_))
    }
}

/// Returns the default usages of an imported pair.
fn pair_kind(public: &[Attribute]) -> &'static [Usage] {
    let kind = public.iter().find(|one| one.kind == CKA_KEY_TYPE);
    let kind = kind.and_then(|one| Some(CK_ULONG::from_ne_bytes(one.value.clone().try_into().ok()?)));
    match kind {
        Some(CKK_RSA) => &[Usage::Sign, Usage::Decrypt],
        Some(CKK_EC_MONTGOMERY | CKK_DH) => &[Usage::Derive],
        Some(CKK_ML_KEM) => &[Usage::Decapsulate],
        Some(CKK_EC) => &[Usage::Sign, Usage::Derive],
        _ => &[Usage::Sign],
    }
}

/// The form of a public key.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// SubjectPublicKeyInfo in PEM.
    Pem,
    /// SubjectPublicKeyInfo in DER.
    Der,
    /// A line of authorized_keys.
    Openssh,
    /// JSON Web Key.
    Jwk,
    /// The data of a DNSKEY record.
    Dnskey,
}

#[derive(Args)]
struct Export {
    #[command(flatten)]
    chosen: Chosen,
    /// The form.
    #[arg(long, value_enum, default_value = "pem")]
    format: Form,
    /// The flags of the DNSKEY: 256 for a zone-signing key, 257 for a key-signing key.
    #[arg(long, default_value = "257")]
    flags: u16,
    #[command(flatten)]
    output: Output,
}

impl Export {
    fn run(self) -> Result<ExitCode, Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = match self.chosen.objects.find(&session, &["public"])?.as_slice() {
            [object] => *object,
            _ => self.chosen.objects.one(&session, &["public", "private", "cert"])?,
        };
        let info = public_key_info(&session, object)?;
        let form = match self.format {
            Form::Pem => PublicForm::Pem,
            Form::Der => PublicForm::Der,
            Form::Openssh => PublicForm::OpenSsh,
            Form::Jwk => PublicForm::Jwk,
            Form::Dnskey => PublicForm::DnsKey(self.flags),
        };
        let label = String::from_utf8_lossy(&bytes(&session, object, CKA_LABEL)).into_owned();
        let text =
            formats::public_key(&info, form, &label).map_err(|error| Error::Failed(error.to_string()))?;
        if form == PublicForm::Der {
            self.output.binary(&text)?
        } else {
            self.output.text(&text)?
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The key that wraps, and how.
#[derive(Args)]
struct With {
    /// The label of the key that wraps.
    #[arg(long, value_name = "LABEL", required_unless_present = "with_id")]
    with: Option<String>,
    /// The ID of the key that wraps, in hexadecimal digits.
    #[arg(long, value_name = "HEX", conflicts_with = "with")]
    with_id: Option<String>,
    /// The method. By default aes-kwp for an AES key and rsa-oaep for an RSA key.
    #[arg(long, value_enum)]
    method: Option<Method>,
}

/// A method of wrapping.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// AES key wrap with padding (RFC 5649), for keys of every type.
    AesKwp,
    /// AES key wrap (RFC 3394), for AES keys.
    AesKw,
    /// RSA-OAEP with SHA-256, for secret keys.
    RsaOaep,
}

impl With {
    fn find(&self, session: &Session, classes: &[&str]) -> Result<(ObjectHandle, Mechanism), Error> {
        let objects = Objects::named(self.with.clone(), self.with_id.clone());
        let key = objects.one(session, classes)?;
        let default = match number(session, key, CKA_KEY_TYPE) {
            Some(CKK_RSA) => Method::RsaOaep,
            _ => Method::AesKwp,
        };
        let mechanism = match self.method.unwrap_or(default) {
            Method::AesKwp => Mechanism::new(CKM_AES_KEY_WRAP_KWP),
            Method::AesKw => Mechanism::new(CKM_AES_KEY_WRAP),
            Method::RsaOaep => rsa_oaep(),
        };
        Ok((key, mechanism))
    }
}

/// Returns RSA-OAEP with SHA-256 and no label.
pub fn rsa_oaep() -> Mechanism {
    let parameter = Structure::new()
        .number(CKM_SHA256)
        .number(CKG_MGF1_SHA256)
        .number(CKZ_DATA_SPECIFIED)
        .null()
        .number(0);
    parameter.mechanism(CKM_RSA_PKCS_OAEP)
}

#[derive(Args)]
struct Wrap {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    with: With,
    #[command(flatten)]
    output: Output,
}

impl Wrap {
    fn run(self) -> Result<ExitCode, Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = self.chosen.objects.one(&session, &["private", "secret-key"])?;
        let (wrapping, mechanism) = self.with.find(&session, &["secret-key", "public"])?;
        let mut wrapped = vec![0; 128 << 10];
        let length = session.wrap_key(&mechanism, wrapping, key, &mut wrapped)?;
        self.output.binary(&wrapped[..length])?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args)]
struct Unwrap {
    /// The file with the wrapped key.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    #[command(flatten)]
    with: With,
    /// The type of the key: rsa, ec, ed, x, ml-dsa, ml-kem, slh-dsa, aes or generic.
    #[arg(long = "type", value_name = "TYPE")]
    kind: String,
    /// The label.
    #[arg(long)]
    label: String,
    /// The ID in hexadecimal digits. Without it, 8 random bytes.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// What the key may do: sign, decrypt, wrap, derive, decapsulate.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the key to be wrapped again.
    #[arg(long)]
    extractable: bool,
}

impl Unwrap {
    fn run(self) -> Result<ExitCode, Error> {
        let wrapped = out::input(&self.file, formats::MAX_FILE)?;
        let (class, kind, default): (_, _, &[Usage]) = match self.kind.as_str() {
            "rsa" => (CKO_PRIVATE_KEY, CKK_RSA, &[Usage::Sign, Usage::Decrypt]),
            "ec" => (CKO_PRIVATE_KEY, CKK_EC, &[Usage::Sign]),
            "ed" => (CKO_PRIVATE_KEY, CKK_EC_EDWARDS, &[Usage::Sign]),
            "x" => (CKO_PRIVATE_KEY, CKK_EC_MONTGOMERY, &[Usage::Derive]),
            "ml-dsa" => (CKO_PRIVATE_KEY, CKK_ML_DSA, &[Usage::Sign]),
            "ml-kem" => (CKO_PRIVATE_KEY, CKK_ML_KEM, &[Usage::Decapsulate]),
            "slh-dsa" => (CKO_PRIVATE_KEY, CKK_SLH_DSA, &[Usage::Sign]),
            "aes" => (CKO_SECRET_KEY, CKK_AES, &[Usage::Decrypt, Usage::Wrap]),
            "generic" => (CKO_SECRET_KEY, CKK_GENERIC_SECRET, &[Usage::Sign, Usage::Derive]),
            other => return Err(Error::Usage(format!("unknown key type {other:?}"))),
        };
        let usages = usages(&self.usage, default)?;
        let opened: Opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let (unwrapping, mechanism) = self.with.find(&session, &["secret-key", "private"])?;
        let id = match &self.id {
            Some(id) => id_of(id)?,
            None => random_id(&session)?,
        };
        let mut template = vec![
            Attribute::number(CKA_CLASS, class),
            Attribute::number(CKA_KEY_TYPE, kind),
            Attribute::flag(CKA_TOKEN, true),
            Attribute::flag(CKA_PRIVATE, true),
            Attribute::flag(CKA_SENSITIVE, true),
            Attribute::flag(CKA_EXTRACTABLE, self.extractable),
            Attribute::bytes(CKA_LABEL, self.label.as_bytes()),
            Attribute::bytes(CKA_ID, id.clone()),
        ];
        for usage in usages {
            let (of_public, of_private) = usage.attributes();
            template.push(Attribute::flag(of_private, true));
            if class == CKO_SECRET_KEY && of_public != of_private {
                template.push(Attribute::flag(of_public, true));
            }
        }
        let key = session.unwrap_key(&mechanism, unwrapping, &wrapped, &template)?;
        show(&describe(&session, &opened.info, key))?;
        out::line(format_args!("The key with ID {} is in the token.", hex(&id)))?;
        Ok(ExitCode::SUCCESS)
    }
}
