//! What may be done with a key that cannot be read. The rules follow from how a mechanism uses its
//! keys ([`super::flow`]) and never name a mechanism. `functions::derive` and `functions::wrap`
//! apply them to objects, and the model in `conformance/models/tests/keys` tries every sequence of
//! calls under them.
//!
//! Clulow, "On the Security of PKCS #11" (2003), reads keys by parts and by related keys. A minimum
//! length does not prevent it: two derivations that differ in one unknown byte are enough, because
//! equal results show equal keys. So no two keys may differ in few bytes of an unreadable key:
//!
//! - An unreadable key is never cut or rotated, and never the message of a block cipher.
//! - A key that is shorter than its derivation could give differs from every other length by at
//!   least 16 bytes, or it only enciphers. Ciphers accept few lengths and pad none.
//! - A concatenation only derives: a cipher, an HMAC or a wrapped key would lose this mark.

use super::flow::{Extent, Flow, Inputs, Integrity, Output, Protection, Secrecy};
use crate::id::AttributeType as A;

/// The smallest difference in bytes between two lengths of a derived key, so that no
/// attacker can guess the bytes that only the longer key has.
const STEP: usize = 16;

/// The shortest unreadable key in bytes that is derived, encapsulated or decapsulated. No
/// attacker can guess it.
pub const SHORTEST: usize = 16;

/// What the bytes of an unreadable key are (`CKA_JETON_COPIED`). The order is from the fewest
/// limits to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Makeup {
    /// A key of its own.
    Whole,
    /// A whole unreadable key, XORed with bytes that the caller chose.
    Masked,
    /// Bytes whose place the caller chose. Older versions of the token also made cuts and rotations
    /// with this mark.
    Window,
    /// A concatenation with an unreadable key.
    Joined,
    /// A part of a longer result.
    Part,
}

impl Makeup {
    /// Reads the value of `CKA_JETON_COPIED`. A key without the attribute has 0.
    pub fn of(number: u64) -> Self {
        match number {
            0 => Self::Whole,
            1 => Self::Joined,
            3 => Self::Masked,
            4 => Self::Part,
            _ => Self::Window,
        }
    }

    /// Returns the value of `CKA_JETON_COPIED`; 0 for a key of its own, which has no such
    /// attribute.
    pub fn number(self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Joined => 1,
            Self::Window => 2,
            Self::Masked => 3,
            Self::Part => 4,
        }
    }

    /// Returns whether such a key may have the usage.
    pub fn permits(self, usage: A) -> bool {
        match self {
            Self::Whole | Self::Masked | Self::Window => true,
            Self::Joined => usage == A::DERIVE,
            Self::Part => [A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP].contains(&usage),
        }
    }
}

/// How a key type reads the bytes of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Structure {
    /// As one string.
    Whole,
    /// This number of parts of the same length, each as a key of its own.
    Parts(usize),
    /// As `Parts`. A bit of each byte is its parity, which the token may set.
    PartsWithParity(usize),
}

/// The policy of the token (`[policy] name`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// *compatible*
    Compatible,
    /// *strict*
    Strict,
}

/// What the rules know of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyState {
    /// `CKA_SENSITIVE`
    pub sensitive: bool,
    /// `CKA_EXTRACTABLE`
    pub extractable: bool,
    /// `CKA_WRAP_WITH_TRUSTED`
    pub with_trusted: bool,
    /// What its bytes are.
    pub makeup: Makeup,
    /// Whether its `CKA_DERIVE_TEMPLATE` makes derived keys unreadable.
    pub template: Template,
    /// Whether its `CKA_DERIVE_TEMPLATE` lets derived keys sign, or gives them templates. Then a
    /// value that one call and also two calls derive would have two roles.
    pub counts_steps: bool,
    /// Whether its type counts what each key does, such as one-time passwords. Another key with its
    /// bytes would count again, and a derivation or a digest could compute what it counts.
    pub counted: bool,
}

/// What the template attribute of a key does to the keys that are made with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Template {
    /// It makes them unreadable.
    Protects,
    /// It does not, or there is none.
    Open,
}

impl KeyState {
    /// Returns whether `C_GetAttributeValue` hides the value.
    pub fn is_unreadable(&self) -> bool {
        self.sensitive || !self.extractable
    }
}

/// Why a use of an unreadable key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The derivation cuts the key.
    Cut,
    /// The derivation rotates the key.
    Rotated,
    /// The caller could compute the key from the result.
    Invertible,
    /// The key is a part, a window, or a concatenation, and the derivation reads it beside other
    /// bytes or by halves.
    Makeup,
    /// The caller would read a result that the key protects.
    Visible,
    /// The policy *strict* gives no bytes of a key to another key, which could have another role.
    Copied,
    /// Two calls could derive what one call derives, in another role.
    Steps,
    /// The key counts what it does, and would not count this.
    Counted,
    /// The type of the derived key reads parts of the key apart, or changes a bit of each byte.
    Structure,
}

/// What a derived key must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Demand {
    /// `CKA_SENSITIVE` must be true.
    pub sensitive: bool,
    /// `CKA_EXTRACTABLE` must be false.
    pub unextractable: bool,
    /// `CKA_WRAP_WITH_TRUSTED` must be true.
    pub with_trusted: bool,
    /// What its bytes are, if the derived key is unreadable. [`made`] may limit it further.
    pub makeup: Makeup,
}

/// Decides about a derivation with these keys, of which the first is the base key. The strictest
/// of them wins. Fails with the reason if the derivation is refused.
pub fn derive(inputs: &Inputs, keys: &[KeyState], policy: Policy) -> Result<Demand, Refusal> {
    // A readable one too: the value is in the hands of its user, but its type has no such use.
    if keys.iter().any(|key| key.counted) {
        return Err(Refusal::Counted);
    }
    let flow = |at: usize| if at == 0 { inputs.base } else { inputs.named };
    let (mut makeup, mut copies) = (Makeup::Whole, false);
    for (at, key) in keys.iter().enumerate().filter(|(_, key)| key.is_unreadable()) {
        makeup = makeup.max(passes(flow(at), key.makeup)?);
        match flow(at) {
            flow if policy == Policy::Strict && flow.copies() => return Err(Refusal::Copied),
            Flow::OneWay | Flow::Halves => {}
            _ if policy == Policy::Strict && key.counts_steps => return Err(Refusal::Steps),
            _ => {}
        }
        copies |= flow(at).copies();
    }
    let any = |is: &dyn Fn(&KeyState) -> bool| keys.iter().any(is);
    let inherits = copies || inputs.protection == Protection::Inherited || policy == Policy::Strict;
    let hides = |key: &KeyState| key.template == Template::Protects || inherits && key.is_unreadable();
    if inputs.output == Output::Visible && any(&hides) {
        return Err(Refusal::Visible);
    }
    Ok(Demand {
        sensitive: inherits && any(&|key| key.sensitive),
        unextractable: inherits && any(&|key| !key.extractable),
        with_trusted: (inherits || inputs.protection == Protection::Default) && any(&|key| key.with_trusted),
        makeup,
    })
}

/// Returns what the bytes of a derived key are, or why an unreadable key of this makeup does not
/// flow so.
fn passes(flow: Flow, makeup: Makeup) -> Result<Makeup, Refusal> {
    use Makeup::{Joined, Masked, Part, Whole, Window};
    match (flow, makeup) {
        (Flow::Part, _) => Err(Refusal::Cut),
        (Flow::Rotation, _) => Err(Refusal::Rotated),
        (Flow::Invertible, _) => Err(Refusal::Invertible),
        (Flow::Head, Joined | Window | Part) => Err(Refusal::Cut),
        (_, Part) => Err(Refusal::Makeup),
        (Flow::OneWay | Flow::Step, _) => Ok(Whole),
        // The two halves of a masked or joined key can be changed apart.
        (Flow::Halves, Whole) => Ok(Whole),
        (Flow::Halves, _) => Err(Refusal::Makeup),
        (_, Window) => Err(Refusal::Makeup),
        (Flow::Mixed, _) => Ok(Whole),
        (Flow::Head, Whole | Masked) => Ok(Part),
        (Flow::Masked, Joined) | (Flow::Joined, _) => Ok(Joined),
        (Flow::Masked, _) => Ok(Masked),
    }
}

/// Returns what the bytes of an unreadable key are whose derivation could give `natural` bytes and
/// gives `len`. The caller may derive the same key at every length.
pub fn made(extent: Extent, natural: usize, len: usize) -> Makeup {
    let apart = match extent {
        Extent::Window => return Makeup::Window,
        Extent::Fixed => natural.saturating_sub(len).is_multiple_of(STEP),
        Extent::Blocks(block) if block.is_multiple_of(STEP) => len.is_multiple_of(STEP),
        Extent::Blocks(block) => len.is_multiple_of(block),
    };
    if apart { Makeup::Whole } else { Makeup::Part }
}

/// Decides whether an unreadable key that another key makes may have a type of this structure. The
/// caller could change a part of a masked or joined key, and so search for each part alone. The
/// parity of a byte would show in the difference to the same bytes in a key of another type.
pub fn becomes(makeup: Makeup, structure: Structure) -> Result<(), Refusal> {
    match structure {
        Structure::Whole => Ok(()),
        Structure::Parts(_) if makeup == Makeup::Whole => Ok(()),
        Structure::Parts(_) | Structure::PartsWithParity(_) => Err(Refusal::Structure),
    }
}

/// Returns whether a key of this makeup has a `CKA_CHECK_VALUE`: it is a ciphertext or a digest of
/// bytes that the caller may have chosen. PKCS#11 3.2, "Secret key objects": the check value
/// "should not be usable to obtain any part of the key value".
pub fn has_check_value(makeup: Makeup) -> bool {
    makeup == Makeup::Whole
}

/// Decides about a signature by a mechanism that takes its key so.
pub fn sign(flow: Flow, makeup: Makeup) -> Result<(), Refusal> {
    if flow == Flow::Halves { passes(flow, makeup).map(drop) } else { Ok(()) }
}

/// Decides about `C_DigestKey`, whose result the caller reads. The digest reads the key beside
/// bytes of the caller.
pub fn digest(flow: Flow, key: &KeyState, policy: Policy) -> Result<(), Refusal> {
    let inputs = Inputs {
        base: flow,
        named: flow,
        extent: Extent::Fixed,
        output: Output::Visible,
        protection: Protection::Chosen,
    };
    derive(&inputs, &[*key], policy).map(drop)
}

/// What a wrapping key may do besides wrapping and unwrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WrappingKey {
    /// Nothing, and its user cannot change this.
    Dedicated,
    /// It may have other usages, in which the caller chooses nonces or blocks.
    Shared,
}

/// Why a key is not wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WrapRefusal {
    /// The unwrapped key would lose the mark of the key, its protecting template, or its count.
    Mark,
    /// The mechanism shows parts of a key that only trusted keys wrap, or its XOR with another key.
    Shows,
    /// A wrapping key that may wrap under the token's nonces takes no nonce of the caller.
    Nonce,
    /// A wrapping key that may wrap under the token's nonces shows no key stream.
    Stream,
}

/// Decides about the wrapping of a key. A caller can wrap an extractable key without
/// `CKA_WRAP_WITH_TRUSTED` under a key that they know. Only for the other keys does it matter what
/// a wrapped key shows.
pub fn wrap(secrecy: Secrecy, by: WrappingKey, key: &KeyState) -> Result<(), WrapRefusal> {
    let loses = key.with_trusted && (key.template == Template::Protects || key.counted);
    if key.is_unreadable() && (key.makeup != Makeup::Whole || loses) {
        return Err(WrapRefusal::Mark);
    }
    match (secrecy, by) {
        (Secrecy::Whole, _) | (Secrecy::TokenNonce, WrappingKey::Dedicated) => Ok(()),
        (Secrecy::CallerNonce, WrappingKey::Dedicated) => Err(WrapRefusal::Nonce),
        (Secrecy::Parts, WrappingKey::Dedicated) => Err(WrapRefusal::Stream),
        (_, WrappingKey::Shared) if key.is_unreadable() && key.with_trusted => Err(WrapRefusal::Shows),
        (_, WrappingKey::Shared) => Ok(()),
    }
}

/// What a key opens by a mechanism, among the forms of wrapped keys that it can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A form that is no part of another one.
    Alone,
    /// Also the head of a wrapped key that it opens by a hybrid mechanism. The head is the AES key
    /// under which the rest is wrapped, so its user opens the rest without the token.
    Head,
}

/// Why a key is not opened, although the template of the key that opens it, or the policy *strict*,
/// makes it unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnwrapRefusal {
    /// A caller who changes the wrapped key could read it.
    Malleable,
    /// It could be the head of the wrapped key of a hybrid mechanism.
    Head,
}

/// Decides about an unwrapping, or about a derivation that opens heads. `template` says whether the
/// `CKA_UNWRAP_TEMPLATE` makes the new key unreadable. Under *strict* no mechanism that opens heads
/// unwraps, and a key that derives does not unwrap.
pub fn unwrap(
    integrity: Integrity,
    form: Form,
    template: Template,
    policy: Policy,
) -> Result<(), UnwrapRefusal> {
    match (integrity, form, template) {
        (Integrity::Malleable, _, Template::Protects) => Err(UnwrapRefusal::Malleable),
        (Integrity::Malleable, ..) if policy == Policy::Strict => Err(UnwrapRefusal::Malleable),
        (_, Form::Head, Template::Protects) => Err(UnwrapRefusal::Head),
        _ => Ok(()),
    }
}

/// How another key makes a key. Under *strict* this decides about the role of the new key, so that
/// every object with the same value has the same role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// It is unwrapped. The wrapped key may come from the token and had a role there, which no form
    /// of wrapped keys carries.
    Unwrapped,
    /// It is derived from secret keys. Each call with the same inputs gives the same value.
    Derived,
    /// It is agreed, encapsulated or decapsulated. The other party gets the same value, also from a
    /// key of this token.
    Agreed,
}

impl Source {
    /// Returns whether a new key may have a usage under *strict*. `named` are the usages that the
    /// template of the key that makes it names. `enciphers` says whether ciphers take keys of its
    /// type.
    ///
    /// A key without such a template enciphers, or it derives by hash functions: no result of a
    /// cipher shows a result of a hash function with the same key. A derivation by a block cipher
    /// needs a key that enciphers, so such a key only derives if it was generated or imported.
    pub fn permits(self, usage: A, named: &[A], enciphers: bool) -> bool {
        if usage == A::DERIVE && enciphers {
            return false;
        }
        match self {
            Self::Unwrapped => named.contains(&usage),
            Self::Derived if !named.is_empty() => named.contains(&usage),
            Self::Derived | Self::Agreed => [A::ENCRYPT, A::DECRYPT, A::DERIVE].contains(&usage),
        }
    }
}

/// Returns whether a key with the usages `own` comes back from unwrapping in its own role, or
/// without any usage. `named` are the usages that the template of the unwrapping key names. A key
/// without a usage may have had any role before. `same_templates` says whether it also gets its own
/// templates.
pub fn keeps_role(own: &[A], named: &[A], same_templates: bool) -> bool {
    named.is_empty() || same_templates && !own.is_empty() && own.iter().all(|id| named.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_makeup_keeps_its_number() {
        for makeup in [Makeup::Whole, Makeup::Joined, Makeup::Window, Makeup::Masked, Makeup::Part] {
            assert_eq!(Makeup::of(makeup.number()), makeup);
        }
    }

    #[test]
    fn two_lengths_of_a_whole_key_differ_by_a_whole_block() {
        for extent in [Extent::Fixed, Extent::Blocks(16), Extent::Blocks(20), Extent::Blocks(32)] {
            let natural = 66;
            let whole: Vec<_> =
                (16..=natural).filter(|len| made(extent, natural, *len) == Makeup::Whole).collect();
            assert!(!whole.is_empty());
            assert!(whole.windows(2).all(|pair| pair[1] - pair[0] >= STEP), "{extent:?}: {whole:?}");
        }
        assert_eq!(made(Extent::Fixed, 66, 66), Makeup::Whole);
        assert_eq!(made(Extent::Window, 32, 32), Makeup::Window);
    }
}
