//! `key derive`: agrees on a key with ECDH.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cryptoki_sys::*;
use der::Decode;
use jeton_pki::key_type::{KeyType, Shape, Usage};
use jeton_tool::Error;
use jeton_tool::client::{Attribute, Structure};
use jeton_tool::formats::certificate::public_key_of;
use jeton_tool::formats::{self, Item, Password, Wanted};
use spki::SubjectPublicKeyInfoRef;

use super::{NewKey, is_strict};
use crate::commands::out;
use crate::commands::target::Objects;

/// Derive a secret key with ECDH from a private key of the token and the public key of a peer.
#[derive(Args)]
pub(super) struct Derive {
    /// The file with the public key or the certificate of the peer.
    peer: PathBuf,
    /// The label of the private key.
    #[arg(long, value_name = "LABEL", required_unless_present = "with_id")]
    with: Option<String>,
    /// The ID of the private key, in hexadecimal digits.
    #[arg(long, value_name = "HEX", conflicts_with = "with")]
    with_id: Option<String>,
    /// The key derivation function of X9.63, or none for the first bytes of the shared secret.
    #[arg(long, value_enum, default_value = "sha256")]
    kdf: Kdf,
    /// The type of the new key: aes:BITS or generic:BYTES.
    #[arg(long = "type", value_name = "TYPE", default_value = "aes:256")]
    kind: String,
    #[command(flatten)]
    key: NewKey,
}

/// A key derivation function.
#[derive(Clone, Copy, ValueEnum)]
enum Kdf {
    /// None.
    None,
    /// X9.63 with SHA-256.
    Sha256,
    /// X9.63 with SHA-384.
    Sha384,
    /// X9.63 with SHA-512.
    Sha512,
}

impl Derive {
    pub(super) fn run(self) -> Result<(), Error> {
        let kind = KeyType::parse(&self.kind)?;
        if kind.shape == Shape::Pair {
            return Err(Error::Usage("a derived key has the type aes:BITS or generic:BYTES".to_owned()));
        }
        let key_type = if kind.mechanism.kind == CKM_AES_KEY_GEN { CKK_AES } else { CKK_GENERIC_SECRET };
        // Under *strict* an agreed key enciphers or derives.
        let derives: &[Usage] = &[Usage::Derive];
        let default = if is_strict() && key_type == CKK_GENERIC_SECRET { derives } else { kind.usages };
        let usages = self.key.permissions.usages(default)?;
        let peer = self.peer()?;
        let kdf = match self.kdf {
            Kdf::None => CKD_NULL,
            Kdf::Sha256 => CKD_SHA256_KDF,
            Kdf::Sha384 => CKD_SHA384_KDF,
            Kdf::Sha512 => CKD_SHA512_KDF,
        };
        let mechanism = Structure::new().number(kdf).counted(&[]).counted(&peer).mechanism(CKM_ECDH1_DERIVE);
        self.key.show(CKO_SECRET_KEY, |session| {
            let base = Objects::named(self.with.clone(), self.with_id.clone()).one(session, &["private"])?;
            let key_type =
                [Attribute::number(CKA_CLASS, CKO_SECRET_KEY), Attribute::number(CKA_KEY_TYPE, key_type)];
            let [names, protected] = self.key.attributes(session)?;
            let usages = usages.attributes(CKO_SECRET_KEY);
            let template = [&key_type[..], &names, &protected, &kind.parameters, &usages].concat();
            Ok(session.derive_key(&mechanism, base, &template)?)
        })
    }

    /// Returns the point of the peer's public key.
    fn peer(&self) -> Result<Vec<u8>, Error> {
        let file = out::input(&self.peer, formats::MAX_FILE)?;
        let refused = |source| Error::KeyFile { path: self.peer.clone(), source };
        let entries =
            formats::read(&file, Wanted::Public, &mut Password::new(&mut || None)).map_err(refused)?;
        let info = entries.into_iter().find_map(|entry| match entry.item {
            Item::PublicKey(info) => Some(Ok(info)),
            Item::Certificate(der) => Some(public_key_of(&der)),
            Item::PrivateKey(_) | Item::SecretKey => None,
        });
        let none = || Error::Failed(format!("{} has no public key", self.peer.display()));
        let info = info.ok_or_else(none)??;
        Ok(SubjectPublicKeyInfoRef::from_der(&info)?.subject_public_key.raw_bytes().to_vec())
    }
}
