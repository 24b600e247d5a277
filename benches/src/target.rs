//! A token that is measured: the operations of its module, each as a call that is repeated.

mod module;
mod template;

use cryptoki_sys::{CK_OBJECT_HANDLE, CKA_EC_POINT, CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_VALUE};
use jeton::backend::PublicParts;
use jeton_client::Attribute;

use crate::scheme::{Kind, Pair};

pub use module::{ModuleToken, creation, token_key};
pub use template::{FINDABLE, Findable, aes_object};

#[derive(Clone, Copy)]
pub struct Keys {
    pub public: CK_OBJECT_HANDLE,
    pub private: CK_OBJECT_HANDLE,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The object ends with its session.
    Session,
    /// The object stays in the token.
    Token,
}

impl Home {
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Token => "token",
        }
    }
}

/// A result, or the reason why a row is left out.
pub type Outcome<T> = Result<T, String>;

pub fn public_parts(target: &ModuleToken, pair: &Pair, keys: Keys) -> Outcome<PublicParts> {
    let read = |kind| target.attribute(keys.public, kind);
    Ok(match pair.kind {
        Kind::Ec(curve) => PublicParts::Ec { curve, point: unwrapped(read(CKA_EC_POINT)?) },
        Kind::Rsa(_) => PublicParts::Rsa { n: read(CKA_MODULUS)?, e: read(CKA_PUBLIC_EXPONENT)? },
        Kind::Ed25519 => {
            let point = unwrapped(read(CKA_EC_POINT)?);
            PublicParts::Ed25519 { point: point.try_into().map_err(|_| "no point of Ed25519".to_owned())? }
        }
        Kind::MlDsa(set) => PublicParts::MlDsa { set, key: read(CKA_VALUE)? },
        Kind::SlhDsa(set) => PublicParts::SlhDsa { set, key: read(CKA_VALUE)? },
        Kind::MlKem(_) => return Err("a key that does not sign".to_owned()),
    })
}

/// Returns the content of a DER octet string of less than 256 bytes, or the bytes as they are if a
/// peer returns them raw.
fn unwrapped(point: Vec<u8>) -> Vec<u8> {
    match point.as_slice() {
        [0x04, 0x81, len, rest @ ..] | [0x04, len, rest @ ..] if rest.len() == usize::from(*len) => {
            rest.to_vec()
        }
        _ => point,
    }
}

pub type Template = Vec<Attribute>;
