//! `key wrap` and `key unwrap`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cryptoki_sys::*;
use jeton_pki::key_type::Usage;
use jeton_tool::client::names::CKK_JETON_COMPOSITE_ML_DSA;
use jeton_tool::client::{Access, Attribute, Failure, Mechanism, ObjectHandle, Session, Structure};
use jeton_tool::{Error, formats};

use super::{NewKey, is_strict};
use crate::commands::out::{self, Output};
use crate::commands::target::{Chosen, Need, Objects};

/// The options that choose the wrapping key and the method.
#[derive(Args)]
struct With {
    /// The label of the key that wraps or unwraps.
    #[arg(long, value_name = "LABEL", required_unless_present = "with_id")]
    with: Option<String>,
    /// The ID of the key that wraps or unwraps, in hexadecimal digits.
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
    /// RSA-OAEP with SHA-1, the default of OpenSSL and of several clouds.
    RsaOaepSha1,
    /// An AES key in RSA-OAEP with SHA-256, and the key in AES-KWP, for keys of every type.
    RsaAes,
    /// The same with SHA-1.
    RsaAesSha1,
}

impl With {
    fn find(&self, session: &Session, classes: &[&str]) -> Result<(ObjectHandle, Method), Error> {
        let objects = Objects::named(self.with.clone(), self.with_id.clone());
        let key = objects.one(session, classes)?;
        let default = match session.number(key, CKA_KEY_TYPE) {
            Some(CKK_RSA) => Method::RsaOaep,
            _ => Method::AesKwp,
        };
        Ok((key, self.method.unwrap_or(default)))
    }
}

impl Method {
    fn mechanism(self) -> Mechanism {
        let rsa_aes = |oaep| Structure::new().number(256).structure(oaep).mechanism(CKM_RSA_AES_KEY_WRAP);
        match self {
            Self::AesKwp => Mechanism::new(CKM_AES_KEY_WRAP_KWP),
            Self::AesKw => Mechanism::new(CKM_AES_KEY_WRAP),
            Self::RsaOaep => rsa_oaep(),
            Self::RsaOaepSha1 => oaep(CKM_SHA_1, CKG_MGF1_SHA1).mechanism(CKM_RSA_PKCS_OAEP),
            Self::RsaAes => rsa_aes(oaep(CKM_SHA256, CKG_MGF1_SHA256)),
            Self::RsaAesSha1 => rsa_aes(oaep(CKM_SHA_1, CKG_MGF1_SHA1)),
        }
    }

    /// Returns the error of `C_UnwrapKey`. The code does not say that the file may have been made
    /// with another method.
    fn refused(self, failure: Failure) -> Error {
        let is_about_file = [CKR_WRAPPED_KEY_INVALID, CKR_WRAPPED_KEY_LEN_RANGE].contains(&failure.code);
        match self {
            Self::AesKwp | Self::AesKw => failure.into(),
            _ if !is_about_file => failure.into(),
            _ => Error::Failed(format!(
                "{failure}: the file is damaged, or another method made it; --method has rsa-oaep, rsa-oaep-sha1, \
                rsa-aes and rsa-aes-sha1"
            )),
        }
    }
}

/// Returns RSA-OAEP with SHA-256 and no label.
pub fn rsa_oaep() -> Mechanism {
    oaep(CKM_SHA256, CKG_MGF1_SHA256).mechanism(CKM_RSA_PKCS_OAEP)
}

fn oaep(hash: CK_MECHANISM_TYPE, mask: CK_RSA_PKCS_MGF_TYPE) -> Structure {
    Structure::new().number(hash).number(mask).number(CKZ_DATA_SPECIFIED).null().number(0)
}

#[derive(Args)]
pub(super) struct Wrap {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    with: With,
    #[command(flatten)]
    output: Output,
}

impl Wrap {
    pub(super) fn run(self) -> Result<(), Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = self.chosen.objects.one(&session, &["private", "secret-key"])?;
        let (wrapping, method) = self.with.find(&session, &["secret-key", "public"])?;
        let mut wrapped = vec![0; 128 << 10];
        let length = session.wrap_key(&method.mechanism(), wrapping, key, &mut wrapped)?;
        self.output.binary(&wrapped[..length])
    }
}

#[derive(Args)]
#[command(
    mut_arg("usage", |arg| arg.help("What the key may do, and nothing else: sign, decrypt, wrap, derive, decapsulate")),
    mut_arg("extractable", |arg| arg.help("Allow the key to be wrapped again"))
)]
pub(super) struct Unwrap {
    /// The file with the wrapped key.
    file: PathBuf,
    #[command(flatten)]
    with: With,
    /// The type of the key: rsa, ec, ed, x, ml-dsa, composite, ml-kem, slh-dsa, aes or
    /// generic.
    #[arg(long = "type", value_name = "TYPE")]
    kind: String,
    #[command(flatten)]
    key: NewKey,
}

impl Unwrap {
    pub(super) fn run(self) -> Result<(), Error> {
        let wrapped = out::input(&self.file, formats::MAX_FILE)?;
        let (class, kind, default): (_, _, &[Usage]) = match self.kind.as_str() {
            "rsa" => (CKO_PRIVATE_KEY, CKK_RSA, &[Usage::Sign, Usage::Decrypt]),
            "ec" => (CKO_PRIVATE_KEY, CKK_EC, &[Usage::Sign]),
            "ed" => (CKO_PRIVATE_KEY, CKK_EC_EDWARDS, &[Usage::Sign]),
            "x" => (CKO_PRIVATE_KEY, CKK_EC_MONTGOMERY, &[Usage::Derive]),
            "ml-dsa" => (CKO_PRIVATE_KEY, CKK_ML_DSA, &[Usage::Sign]),
            "composite" => (CKO_PRIVATE_KEY, CKK_JETON_COMPOSITE_ML_DSA, &[Usage::Sign]),
            "ml-kem" => (CKO_PRIVATE_KEY, CKK_ML_KEM, &[Usage::Decapsulate]),
            "slh-dsa" => (CKO_PRIVATE_KEY, CKK_SLH_DSA, &[Usage::Sign]),
            "aes" => (CKO_SECRET_KEY, CKK_AES, &[Usage::Decrypt, Usage::Wrap]),
            "generic" => (CKO_SECRET_KEY, CKK_GENERIC_SECRET, &[Usage::Sign, Usage::Derive]),
            other => return Err(Error::Usage(format!("unknown key type {other:?}"))),
        };
        // Under *strict* the CKA_UNWRAP_TEMPLATE of the unwrapping key names the usages.
        let usages = self.key.permissions.usages(if is_strict() { &[] } else { default })?;
        self.key.show(class, |session| {
            let (unwrapping, method) = self.with.find(session, &["secret-key", "private"])?;
            let key_type = [Attribute::number(CKA_CLASS, class), Attribute::number(CKA_KEY_TYPE, kind)];
            let [names, protected] = self.key.attributes(session)?;
            let template = [&key_type[..], &names, &protected, &usages.attributes(class)].concat();
            let unwrapped = session.unwrap_key(&method.mechanism(), unwrapping, &wrapped, &template);
            unwrapped.map_err(|failure| method.refused(failure))
        })
    }
}
