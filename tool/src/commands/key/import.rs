//! `key import` and `cert import`: import keys and certificates from a file.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cryptoki_sys::{
    CK_ULONG, CKA_ALLOWED_MECHANISMS, CKA_KEY_TYPE, CKK_AES, CKK_DH, CKK_EC, CKK_EC_MONTGOMERY,
    CKK_GENERIC_SECRET, CKK_ML_KEM, CKK_RSA,
};
use jeton_pki::key_type::Usage;
use jeton_pki::signer::key_id;
use jeton_tool::client::{Access, Attribute, ObjectHandle, Session};
use jeton_tool::formats::{self, Item, Password, Wanted};
use jeton_tool::import::{self, Duplicates, Naming};
use jeton_tool::object::{PSS, describe};
use jeton_tool::{Error, token_file};
use zeroize::Zeroizing;

use super::{Permissions, id_or_random};
use crate::commands::again::Again;
use crate::commands::object::show;
use crate::commands::out;
use crate::commands::pin::{self, FilePin, UserPin};
use crate::commands::target::{Need, Target, id_of};

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportType {
    /// Private keys, with their public keys, and certificates.
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
/// Private keys are read in PKCS#8 (plain or encrypted), PKCS#1, SEC1, PKCS#12, OpenSSH's format,
/// BIND's `.private` format, and as JSON Web Keys. Certificates are read in X.509. PEM and DER are
/// accepted. `key import` refuses a file that has a public key without its private key.
#[derive(Args)]
#[command(mut_arg("usage", |arg| {
    arg.help("What the keys may do, and nothing else: sign, decrypt, wrap, derive, decapsulate. The default depends \
              on the type")
}))]
pub struct Import {
    /// The file, or - for standard input.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    #[command(flatten)]
    file_pin: FilePin,
    /// The label. The default is the name in the file.
    #[arg(long)]
    label: Option<String>,
    /// The ID in hexadecimal digits. The default is that of the same key or of its certificate in
    /// the token, or the SHA-1 digest of the public key, or 8 random bytes for a secret key.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// What the file holds.
    #[arg(long = "type", alias = "import-type", value_enum, default_value = "keypair")]
    kind: ImportType,
    /// The same as --type aes.
    #[arg(long)]
    aes: bool,
    #[command(flatten)]
    permissions: Permissions,
    /// Import the private key without its public key.
    #[arg(long, alias = "no-public-key")]
    private_only: bool,
    #[command(flatten)]
    again: Again,
    /// The same as --allow-duplicate.
    #[arg(long, hide = true, conflicts_with = "if_absent")]
    force: bool,
}

impl Import {
    pub fn run_with(&self, kind: ImportType) -> Result<(), Error> {
        // The file is read before the token is opened: a damaged file changes nothing.
        let file = Zeroizing::new(out::input(&self.file, formats::MAX_FILE)?);
        let opened = match kind {
            ImportType::Aes | ImportType::Generic => return self.secret(&file, kind),
            ImportType::Keypair | ImportType::Cert => self.read(&file, kind)?,
        };
        let target = self.target.open(None)?;
        let session = target.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let before: HashSet<_> = session.find(&[])?.into_iter().collect();
        let ids = import::ids_in_token(&session)?;
        let mut made = Vec::new();
        for found in &opened {
            match self.import(&session, found, &ids) {
                Ok(object) => made.push(object),
                Err(error) => {
                    // A file is imported as a whole or not at all.
                    let new = made.into_iter().flatten().filter(|object| !before.contains(object));
                    new.into_iter().try_for_each(|object| session.destroy_object(object))?;
                    return Err(error);
                }
            }
        }
        let objects = made.into_iter().flatten();
        let rows: Vec<_> = objects.map(|object| describe(&session, &target.info, object)).collect();
        show(&rows)
    }

    pub fn run(self) -> Result<(), Error> {
        self.run_with(if self.aes { ImportType::Aes } else { self.kind })
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
        let wanted = if kind == ImportType::Cert { Wanted::Public } else { Wanted::All };
        let entries = formats::read(file, wanted, &mut Password::new(&mut ask));
        let entries = match (entries, failed) {
            (Err(_), Some(error)) => return Err(error),
            (entries, _) => entries.map_err(|source| Error::KeyFile { path: self.file.clone(), source })?,
        };
        if formats::has_no_mac(file) {
            pin::warn("the PKCS#12 file has no MAC, so nothing shows whether it was changed");
        }
        if wanted == Wanted::All && entries.iter().any(|entry| matches!(entry.item, Item::SecretKey)) {
            pin::warn("the secret keys of the file are not imported");
        }
        let is_wanted = |entry: &formats::Entry| match entry.item {
            Item::Certificate(_) => true,
            Item::SecretKey => false,
            _ => wanted == Wanted::All,
        };
        let found = entries.into_iter().filter(is_wanted).map(Found::of).collect::<Result<Vec<_>, _>>()?;
        // A key or a certificate that is in the file twice is imported once.
        let mut seen = HashSet::new();
        let found = found.into_iter().filter(|one| match &one.contents {
            Contents::Certificate(der) => seen.insert((der.clone(), false)),
            Contents::Pair(pair) => seen.insert((one.identity.clone(), is_for_pss(pair))),
            Contents::PublicKey => true,
        });
        let found = found.collect();
        named(found, self)
    }

    /// Creates the objects of one item of the file.
    fn import(
        &self,
        session: &Session,
        found: &Found,
        ids: &HashMap<Vec<u8>, Vec<u8>>,
    ) -> Result<Vec<ObjectHandle>, Error> {
        let naming = self.naming(found, ids)?;
        match &found.contents {
            Contents::Pair(pair) => {
                let usages = self.permissions.usages(pair_kind(pair))?;
                let public = !self.private_only;
                let private =
                    import::key_pair(session, pair, &naming, self.permissions.protection(), &usages, public)?;
                let beside = if public { jeton_tool::object::partner(session, private) } else { None };
                Ok([Some(private), beside].into_iter().flatten().collect())
            }
            Contents::Certificate(der) => Ok(vec![import::certificate(session, der, &naming)?]),
            Contents::PublicKey => Ok(Vec::new()),
        }
    }

    /// Returns the label and the ID of an item. The options --label and --id apply only to the
    /// items that `named` chose. Without an option, the label is the name in the file, and the ID
    /// is that of the same key or of its certificate in the token, or the SHA-1 digest of the
    /// public key.
    fn naming(&self, found: &Found, ids: &HashMap<Vec<u8>, Vec<u8>>) -> Result<Naming, Error> {
        let own = self.label.as_ref().filter(|_| found.is_first);
        let label = own.or(found.name.as_ref()).cloned().unwrap_or_default();
        let id = self.id.as_deref().filter(|_| found.is_first).map(id_of).transpose()?;
        let duplicates = self.duplicates();
        let id = id.or(ids.get(&found.identity).cloned()).unwrap_or_else(|| found.key_id.clone());
        Ok(Naming { label, id, duplicates })
    }

    fn duplicates(&self) -> Duplicates {
        match (self.again.if_absent, self.again.allow_duplicate || self.force) {
            (true, _) => Duplicates::Kept,
            (_, true) => Duplicates::Allowed,
            _ => Duplicates::Refused,
        }
    }

    fn secret(&self, file: &[u8], kind: ImportType) -> Result<(), Error> {
        let generic: Vec<usize> = (1..=1024).collect();
        let (lengths, class, default): (&[usize], _, &[Usage]) = match kind {
            ImportType::Generic => (&generic, CKK_GENERIC_SECRET, &[Usage::Sign, Usage::Derive]),
            _ => (&[16, 24, 32], CKK_AES, &[Usage::Decrypt, Usage::Wrap]),
        };
        let refused = |source| Error::KeyFile { path: self.file.clone(), source };
        let value = formats::secret_key(file, lengths).map_err(refused)?;
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let id = id_or_random(self.id.as_deref(), &session)?;
        let label = self.label.clone().unwrap_or_default();
        let naming = Naming { label, id, duplicates: self.duplicates() };
        let usages = self.permissions.usages(default)?;
        let key =
            import::secret_key(&session, class, &value, &naming, self.permissions.protection(), &usages)?;
        show(&[describe(&session, &opened.info, key)])
    }
}

/// Chooses the items that --label and --id apply to: the first key and its certificate. If the file
/// has no key, chooses the first certificate.
fn named(mut found: Vec<Found>, import: &Import) -> Result<Vec<Found>, Error> {
    let is_alone = |public: &Found| {
        let of_it =
            |one: &Found| matches!(one.contents, Contents::Pair(_)) && one.identity == public.identity;
        matches!(public.contents, Contents::PublicKey) && !found.iter().any(of_it)
    };
    if found.iter().any(is_alone) {
        return Err(Error::Failed(
            "a public key without its private key is not imported: import its private key or its certificate"
                .to_owned(),
        ));
    }
    let leader = found.iter().find(|one| !one.is_certificate()).or(found.first());
    let Some(leader) = leader.map(|one| one.key_id.clone()) else {
        return Err(Error::Failed(format!("{} has no certificate", import.file.display())));
    };
    if import.id.is_some() && found.iter().any(|other| other.key_id != leader && !other.is_certificate()) {
        return Err(Error::Usage("the file has several keys, which cannot share one --id".to_owned()));
    }
    // The encoding of the key in a certificate may be another one.
    let pairs = found.iter().filter(|one| !one.is_certificate());
    let of_pairs: HashMap<_, _> = pairs.map(|one| (one.identity.clone(), one.key_id.clone())).collect();
    for one in &mut found {
        if let Some(id) = of_pairs.get(&one.identity) {
            one.key_id.clone_from(id);
        }
        one.is_first = one.key_id == leader;
    }
    Ok(found)
}

/// The content of an item of a file.
enum Contents {
    Pair(Box<token_file::KeyPair>),
    Certificate(Vec<u8>),
    /// The public key of a private key in the same file. The pair includes it.
    PublicKey,
}

/// An item of a file with its names.
struct Found {
    contents: Contents,
    name: Option<String>,
    /// What all encodings of the public key have in common.
    identity: Vec<u8>,
    key_id: Vec<u8>,
    /// Whether the options --label and --id apply to this item.
    is_first: bool,
}

impl Found {
    fn of(entry: formats::Entry) -> Result<Self, Error> {
        let (contents, info, title) = match entry.item {
            Item::PrivateKey(der) => {
                let mut pair = token_file::read_private_key(&der)?;
                if entry.is_pss {
                    let mechanisms = PSS.iter().flat_map(|one| one.to_ne_bytes()).collect::<Vec<_>>();
                    let allowed = Attribute::bytes(CKA_ALLOWED_MECHANISMS, mechanisms);
                    pair.private.0.push(allowed.clone());
                    pair.public.push(allowed);
                }
                let info = pair.public_key_info.clone();
                (Contents::Pair(Box::new(pair)), info, None)
            }
            Item::Certificate(der) => {
                let info = formats::certificate::public_key_of(&der)?;
                let title = formats::certificate::names(&der)?.title;
                (Contents::Certificate(der), info, Some(title))
            }
            Item::PublicKey(info) => (Contents::PublicKey, info, None),
            Item::SecretKey => return Err(Error::Failed("a secret key is not imported".to_owned())),
        };
        // A certificate may have a public key of any form.
        let key_id = key_id(&info).unwrap_or_default();
        let identity = formats::identity(&info);
        Ok(Self { contents, key_id, identity, name: entry.name.or(title), is_first: true })
    }

    fn is_certificate(&self) -> bool {
        matches!(self.contents, Contents::Certificate(_))
    }
}

fn is_for_pss(pair: &token_file::KeyPair) -> bool {
    pair.private.0.iter().any(|one| one.kind == CKA_ALLOWED_MECHANISMS)
}

/// Returns the default usages of an imported pair.
fn pair_kind(pair: &token_file::KeyPair) -> &'static [Usage] {
    let kind = pair.public.iter().find(|one| one.kind == CKA_KEY_TYPE);
    let kind = kind.and_then(|one| Some(CK_ULONG::from_ne_bytes(one.value.clone().try_into().ok()?)));
    match kind {
        Some(CKK_RSA) if is_for_pss(pair) => &[Usage::Sign],
        Some(CKK_RSA) => &[Usage::Sign, Usage::Decrypt],
        Some(CKK_EC_MONTGOMERY | CKK_DH) => &[Usage::Derive],
        Some(CKK_ML_KEM) => &[Usage::Decapsulate],
        Some(CKK_EC) => &[Usage::Sign, Usage::Derive],
        _ => &[Usage::Sign],
    }
}
