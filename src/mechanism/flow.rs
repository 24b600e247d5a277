//! How the bytes of keys flow through a mechanism: the columns from which [`super::rule`] decides
//! what may be done with keys that cannot be read. A row has them for each use that takes the bytes
//! of a key: derivation, wrapping, unwrapping, `C_DigestKey` and signatures.

use super::message::{Generator, MessageParams};
use super::{Action, Asymmetric, Derivation, MacFunction, MechanismRow, Params};
use crate::backend::AeadScheme;
use crate::id::mechanism_flag as does;

/// The shortest tag of GCM in bytes. SP 800-38D, 5.2.1.2, allows 32 and 64 bits for few
/// applications, under limits that a token cannot enforce (appendix C). Each forgery of a short tag
/// makes the next forgeries cheaper.
pub const GCM_TAG: usize = 12;
/// The shortest tag of CCM (SP 800-38C, B.2) and the shortest MAC (SP 800-38B, A.2; SP 800-107,
/// 5.3.3) in bytes. The only attack on these tags is to guess them.
pub const CODE: usize = 8;
/// The shortest random nonce in bytes. Shorter ones soon repeat (SP 800-38D, 8.3).
const NONCE: usize = 12;

/// How a key that goes into a derivation or a digest reaches the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The result hides the key, also from a caller who knows every other input. The function reads
    /// the key alone: as the key of a MAC, or as the whole message.
    OneWay,
    /// As `OneWay`, but the result is what another derivation computes on its way, or the function
    /// itself has two steps.
    Step,
    /// The result hides the key, but the function reads it together with bytes of the caller or
    /// with other keys.
    Mixed,
    /// The result is the XOR of two results, each of which reads only a half of the key.
    Halves,
    /// A caller who knows the result and the other inputs computes the key: a MAC that is a block
    /// cipher, under a key that the caller knows.
    Invertible,
    /// The whole key, XORed with bytes of the caller.
    Masked,
    /// The whole key beside bytes of the caller or another key.
    Joined,
    /// The first bytes of the key, for a cipher of a protocol (RFC 2409, appendix B).
    Head,
    /// The whole key, rotated.
    Rotation,
    /// Another part of the key.
    Part,
}

/// The lengths that a derivation may give, if the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// One length. A shorter key is a part of the result.
    Fixed,
    /// Any number of blocks of this many bytes. A shorter key has the same first bytes.
    Blocks(usize),
    /// Any part of a longer result: the caller chooses where it starts.
    Window,
}

/// What a derivation gives the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// A key, whose attributes may hide it.
    Key,
    /// Bytes that the caller can read, alone or beside keys.
    Visible,
}

/// What the standard says of the protection of a derived key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protection {
    /// The template chooses. `CKA_SENSITIVE` is false by default.
    Chosen,
    /// The template chooses. The protection of the base keys is the default.
    Default,
    /// The derived key has at least the protection of its base keys.
    Inherited,
}

/// How a derivation uses its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inputs {
    /// The base key.
    pub base: Flow,
    /// Each key that the parameter names.
    pub named: Flow,
    /// The lengths of the result.
    pub extent: Extent,
    /// What the caller gets.
    pub output: Output,
    /// What the standard says of the derived key.
    pub protection: Protection,
}

impl Inputs {
    /// A derivation that hides its keys and has a single length.
    pub(super) const ONE_WAY: Self = Self {
        base: Flow::OneWay,
        named: Flow::Mixed,
        extent: Extent::Fixed,
        output: Output::Key,
        protection: Protection::Chosen,
    };

    /// Returns whether the result contains bytes of a key.
    pub fn copies(&self) -> bool {
        [self.base, self.named].into_iter().any(Flow::copies)
    }
}

impl Flow {
    /// Returns whether the result contains bytes of the key.
    pub fn copies(self) -> bool {
        matches!(self, Self::Masked | Self::Joined | Self::Head | Self::Rotation | Self::Part)
    }
}

/// The lengths in bytes on which the flow of a derivation may depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// The base key; 0 for a private key.
    pub base: usize,
    /// All keys together, with the data of the parameter: the longest possible result of a
    /// concatenation.
    pub total: usize,
    /// The wanted key (`CKA_VALUE_LEN`).
    pub wanted: Option<usize>,
}

impl Sizes {
    /// Returns `whole` if the derived key keeps all of `len` bytes, and otherwise [`Flow::Part`].
    pub(super) fn whole(&self, whole: Flow, len: usize) -> Flow {
        if self.wanted.is_none_or(|wanted| wanted >= len) { whole } else { Flow::Part }
    }
}

/// How a mechanism protects the keys that it wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// AES key wrap with the initial value of its standard. It separates KW (RFC 3394, 2.2.3.1)
    /// from KWP (RFC 5649, 3): neither opens what the other wrapped.
    KeyWrap,
    /// Encryption to a public key with random padding.
    PublicKey,
    /// A fresh AES key wraps the target key, by KWP. The head of the output is the AES key under a
    /// public key, in a form that another mechanism opens ([`MechanismRow::opens_heads`]).
    Hybrid,
    /// An authenticated cipher, under a nonce.
    Aead(AeadScheme),
    /// Any other: block by block, by a key stream, or without padding.
    Unauthenticated,
}

/// Where the nonce of an authenticated cipher comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nonce {
    /// The token generates every bit, and there are at least 96 of them.
    Token,
    /// The caller chooses at least one bit, or there are too few.
    Caller,
}

impl Nonce {
    /// Returns where the nonce of a message comes from.
    pub fn of(params: &MessageParams) -> Self {
        let random = matches!(params.generator(), Generator::Any | Generator::Random);
        match random && params.fixed_bits() == 0 && params.nonce().len() >= NONCE {
            true => Self::Token,
            false => Self::Caller,
        }
    }
}

/// What a wrapped key shows of the key inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Secrecy {
    /// At most whether two whole keys are equal.
    Whole,
    /// Nothing, unless the nonce is used again.
    TokenNonce,
    /// The XOR with every other key that the caller wraps under the same nonce.
    CallerNonce,
    /// Whether parts of keys are equal, or their XOR.
    Parts,
}

/// What a wrapped key guarantees when it is unwrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Integrity {
    /// A changed wrapped key is refused, or gives a key without relation to the old one.
    Whole,
    /// A changed wrapped key gives a key with a known difference.
    Malleable,
}

impl Wrapping {
    /// Returns what a wrapped key of `len` bytes shows. Only an authenticated cipher depends on the
    /// nonce. RFC 5649, 4.1: a key of at most 8 bytes is one block of the cipher, and the caller
    /// chooses most of it. It could be the block that makes a key stream under a random nonce.
    pub fn secrecy(self, nonce: Nonce, len: usize) -> Secrecy {
        match (self, nonce) {
            (Self::KeyWrap, _) if len <= 8 => Secrecy::Parts,
            (Self::KeyWrap | Self::PublicKey | Self::Hybrid, _) => Secrecy::Whole,
            (Self::Aead(_), Nonce::Token) => Secrecy::TokenNonce,
            (Self::Aead(_), Nonce::Caller) => Secrecy::CallerNonce,
            (Self::Unauthenticated, _) => Secrecy::Parts,
        }
    }

    /// Returns what unwrapping guarantees. A short tag can be guessed.
    pub fn integrity(self, tag_len: usize) -> Integrity {
        let good = match self {
            Self::KeyWrap | Self::PublicKey | Self::Hybrid => true,
            Self::Aead(AeadScheme::AesGcm) => tag_len >= GCM_TAG,
            Self::Aead(_) => tag_len >= CODE,
            Self::Unauthenticated => false,
        };
        if good { Integrity::Whole } else { Integrity::Malleable }
    }
}

/// The column of a row: how its uses take the bytes of keys.
#[derive(Clone, Copy)]
pub enum KeyFlow {
    /// The row does not say it. Such a row does not compile.
    Unsaid,
    /// No use takes bytes of a key to a place where a caller gets them: it generates or
    /// encapsulates keys.
    Nothing,
    /// `C_DigestKey`.
    Digests(Flow),
    /// Signatures and MACs.
    Signs(Flow),
    /// A derivation. Its flow depends on the parameter and on lengths.
    Derives(fn(&Params, Sizes) -> Inputs),
    /// Wrapping and unwrapping. It may also encrypt and sign.
    Wraps(Wrapping),
}

impl MechanismRow {
    /// Returns how a derivation uses its keys. `None` if the mechanism does not derive.
    pub fn inputs(&self, params: &Params, sizes: Sizes) -> Option<Inputs> {
        match self.flow {
            KeyFlow::Derives(inputs) => Some(inputs(params, sizes)),
            _ => None,
        }
    }

    /// Returns how the mechanism wraps. `None` if it does not wrap. An initial value of the caller
    /// authenticates nothing: it makes KW out of KWP and KWP out of KW, with a length that the
    /// caller chooses.
    pub fn wrapping(&self, params: &Params) -> Option<Wrapping> {
        match (self.flow, params) {
            (KeyFlow::Wraps(Wrapping::KeyWrap), Params::Cipher(scheme)) if scheme.has_own_initial_value() => {
                Some(Wrapping::Unauthenticated)
            }
            (KeyFlow::Wraps(wrapping), _) => Some(wrapping),
            _ => None,
        }
    }

    /// Returns whether the mechanism opens the head of a wrapped key of a [`Wrapping::Hybrid`].
    /// `CKM_RSA_X_509` opens it too, but never for a key that a template protects.
    pub fn opens_heads(&self) -> bool {
        matches!(self.action, Action::Encrypt(Asymmetric::Oaep) | Action::Derive(Derivation::Ecdh))
    }

    /// Panics, when the table is compiled, unless the row says how each of its uses takes keys.
    pub(super) const fn check_flow(&self) {
        let said = match self.flow {
            KeyFlow::Unsaid => false,
            KeyFlow::Nothing => self.flags & (does::SIGN | does::DIGEST) == 0,
            KeyFlow::Digests(_) => self.flags & does::DIGEST != 0,
            KeyFlow::Signs(_) => self.flags & does::SIGN != 0,
            KeyFlow::Derives(_) => self.flags & does::DERIVE != 0,
            KeyFlow::Wraps(_) => self.flags & does::WRAP != 0,
        };
        assert!(said, "a mechanism does not say how its uses take keys");
        let derives = matches!(self.flow, KeyFlow::Derives(_));
        assert!(derives || self.flags & does::DERIVE == 0, "a mechanism does not say how it derives");
        let wraps = matches!(self.flow, KeyFlow::Wraps(_));
        assert!(
            wraps || self.flags & (does::WRAP | does::UNWRAP) == 0,
            "a mechanism does not say how it wraps"
        );
    }
}

/// Returns how a pseudo-random function (PRF) reads a key that is a part of its message.
pub(super) fn message_of(prf: MacFunction) -> Flow {
    if is_block_cipher(prf) { Flow::Invertible } else { Flow::Mixed }
}

/// Returns whether a PRF is a block cipher, so that it is a permutation of each block of its
/// message.
pub(crate) fn is_block_cipher(prf: MacFunction) -> bool {
    !matches!(prf, MacFunction::Hmac(_) | MacFunction::TlsFinished | MacFunction::TlsPrf)
}

/// Returns the lengths of a result that a PRF continues.
pub(super) fn blocks_of(prf: MacFunction) -> Extent {
    match prf {
        MacFunction::Hmac(hash) => Extent::Blocks(hash.len()),
        _ => Extent::Blocks(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_nonce_without_fixed_bits_is_the_tokens() {
        for (generator, fixed_bits, len, source) in [
            (Generator::Any, 0, 12, Nonce::Token),
            (Generator::Random, 0, 12, Nonce::Token),
            (Generator::Any, 1, 12, Nonce::Caller),
            (Generator::Random, 96, 12, Nonce::Caller),
            (Generator::Any, 0, 1, Nonce::Caller),
            (Generator::Random, 0, 11, Nonce::Caller),
            (Generator::None, 0, 12, Nonce::Caller),
            (Generator::Counter, 0, 12, Nonce::Caller),
            (Generator::CounterXor, 0, 12, Nonce::Caller),
        ] {
            let nonce = vec![0; len];
            let mut params = MessageParams::new(AeadScheme::AesGcm, &nonce, 16).expect("a nonce");
            params.set_generator(generator, fixed_bits).expect("fixed bits of the nonce");
            assert_eq!(Nonce::of(&params), source, "{generator:?} {fixed_bits} {len}");
        }
    }
}
