//! The induction step for the policy *strict* (docs/keys.md, "The argument for strict"). A
//! value that cannot be read has a type: the objects that may hold it. This file tries each call on
//! each type, over all rows of the table, and returns the calls after which two objects of one
//! value have uses that clash. If there are none, no sequence of calls, however long, gives such
//! objects.

use jeton::backend::CipherScheme;
use jeton::config::strict::{self, ROLES};
use jeton::id::{AttributeType as A, KeyType, MechanismType, mechanism_flag as does};
use jeton::mechanism::flow::{Flow, KeyFlow, Nonce, Output, Sizes, Wrapping};
use jeton::mechanism::rule::{self, Form, Policy, Source, Template, WrappingKey};
use jeton::mechanism::{
    self, Action, Asymmetric, Derivation, MacFunction, Mechanism, MechanismRow, Params, Primitive,
};

use super::calls::{calls, parameters};
use super::explorer::{OPEN, victims};
use super::{LEN, Rules};

/// The function of a value that a use computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Function {
    Hash,
    BlockCipher,
    StreamCipher,
    Agreement,
    Rsa,
    /// Any other signature or encapsulation. No other function takes its keys.
    Other,
}

/// A use of a key by a mechanism.
#[derive(Debug, Clone, Copy)]
struct Use {
    row: MechanismType,
    usage: A,
    function: Function,
}

impl Use {
    /// Two uses clash if they compute the same function and have different roles: what one shows is
    /// what the other hides, opens or authenticates.
    fn clashes(&self, other: &Self) -> bool {
        let role = |id| strict::roles(|usage| usage == id).collect::<Vec<_>>();
        self.function == other.function && role(self.usage) != role(other.usage)
    }
}

/// The usages, and the flags of the mechanisms that they permit.
const USAGES: [(A, u64); 11] = [
    (A::ENCRYPT, does::ENCRYPT | does::MESSAGE_ENCRYPT),
    (A::DECRYPT, does::DECRYPT | does::MESSAGE_DECRYPT),
    (A::SIGN, does::SIGN | does::MESSAGE_SIGN),
    (A::SIGN_RECOVER, does::SIGN_RECOVER),
    (A::VERIFY, does::VERIFY | does::MESSAGE_VERIFY),
    (A::VERIFY_RECOVER, does::VERIFY_RECOVER),
    (A::WRAP, does::WRAP),
    (A::UNWRAP, does::UNWRAP),
    (A::DERIVE, does::DERIVE),
    (A::ENCAPSULATE, does::ENCAPSULATE),
    (A::DECAPSULATE, does::DECAPSULATE),
];

/// The types of keys whose value can have several objects: secret keys, of which one value can have
/// each type.
const SECRETS: [KeyType; 4] =
    [KeyType::AES, KeyType::CHACHA20, KeyType::GENERIC_SECRET, KeyType::SHA256_HMAC];
const PAIRS: [KeyType; 4] = [KeyType::RSA, KeyType::EC, KeyType::EC_MONTGOMERY, KeyType::DH];

fn enciphers(key_type: KeyType) -> bool {
    [KeyType::AES, KeyType::CHACHA20].contains(&key_type)
}

/// The table under one of the two sets of rules.
pub(crate) struct Types {
    rules: Rules,
    pub(crate) tried: usize,
    pub(crate) found: Vec<String>,
}

impl Types {
    pub(crate) fn check(rules: Rules) -> Self {
        let mut types = Self { rules, tried: 0, found: Vec::new() };
        types.unwrapping();
        types.derivation();
        types.pairs();
        types.forms();
        types.results();
        types.steps();
        types.found.sort();
        types.found.dedup();
        types
    }

    fn is_real(&self) -> bool {
        self.rules == Rules::Real
    }

    /// Records a call if it leads from a type to no type.
    fn expect(&mut self, holds: bool, call: impl FnOnce() -> String) {
        self.tried += 1;
        if !holds {
            self.found.push(call());
        }
    }

    /// Returns the functions of a row that *strict* leaves.
    fn flags(&self, row: &MechanismRow) -> u64 {
        let refused = strict::refused(row);
        // At cb7123e8 RSA-OAEP wrapped and unwrapped.
        let oaep = row.action == Action::Encrypt(Asymmetric::Oaep);
        row.flags & !if oaep && !self.is_real() { 0 } else { refused }
    }

    /// Returns the uses of a key of this type with this usage, with each parameter that matters.
    fn uses(&self, key_type: KeyType, usage: A) -> Vec<Use> {
        let flag = USAGES.iter().find(|(id, _)| *id == usage).expect("a usage").1;
        let is_secret = SECRETS.contains(&key_type);
        let mut all = Vec::new();
        for row in mechanism::all() {
            if self.flags(row) & flag == 0 || !row.accepts(Some(key_type), is_secret) {
                continue;
            }
            let params = match row.flow {
                KeyFlow::Derives(_) => parameters(row).into_iter().map(|(params, _)| params).collect(),
                _ => vec![Params::None],
            };
            for params in params {
                let Some(function) = function(row, &params) else { continue };
                let is_secret_of_cipher = function == Function::BlockCipher && usage == A::DERIVE;
                // The token refuses the other secrets as keys of a block cipher.
                let by_cipher = is_secret_of_cipher && self.is_real() && !enciphers(key_type);
                if by_cipher && matches!(row.action, Action::Derive(Derivation::Sp800_108(_))) {
                    continue;
                }
                if self.is_real() && strict::check_parameter(&Mechanism { info: row.word(), params }).is_err()
                {
                    continue;
                }
                all.push(Use { row: row.id, usage, function });
            }
        }
        all
    }

    /// Whether a key that another key makes may have a usage.
    fn permits(&self, source: Source, usage: A, named: &[A], key_type: KeyType) -> bool {
        !self.is_real() || source.permits(usage, named, enciphers(key_type))
    }

    /// Returns the objects that one value can have if a key makes it, by key type and usage.
    fn made(&self, source: Source, named: &[A]) -> Vec<(KeyType, A)> {
        let of_type = |key_type| {
            let usages = USAGES.iter().map(|(usage, _)| *usage);
            usages
                .filter(move |usage| self.permits(source, *usage, named, key_type))
                .map(move |id| (key_type, id))
        };
        SECRETS.into_iter().flat_map(of_type).collect()
    }

    /// Returns the pairs of uses of one value that clash.
    fn clashes(&self, one: &[(KeyType, A)], two: &[(KeyType, A)]) -> Option<(Use, Use)> {
        let uses = |objects: &[(KeyType, A)]| -> Vec<Use> {
            objects.iter().flat_map(|(key_type, usage)| self.uses(*key_type, *usage)).collect()
        };
        let (one, two) = (uses(one), uses(two));
        one.iter().find_map(|a| two.iter().find(|b| a.clashes(b)).map(|b| (*a, *b)))
    }

    /// The types of secret values that are made without another key: one role each. And the type of
    /// a derived value.
    fn types(&self) -> Vec<(String, Vec<(KeyType, A)>)> {
        let role = |role: &strict::Role| {
            let of_type = |key_type| role.usages.iter().map(move |usage| (key_type, *usage));
            SECRETS.map(|key_type| (format!("{} {key_type}", role.name), of_type(key_type).collect()))
        };
        let mut all: Vec<_> = ROLES.iter().flat_map(role).collect();
        all.push(("derived".to_owned(), self.made(Source::Derived, &[])));
        all
    }

    /// `C_WrapKey` and `C_UnwrapKey`: each type of a value, each role of its object, each template
    /// of the wrapping key, each usage and key type of the unwrapped object.
    fn unwrapping(&mut self) {
        for (name, members) in self.types() {
            for (role, template) in ROLES.iter().flat_map(|role| {
                let named = ROLES.iter().map(|named| named.usages).chain([&[][..]]);
                named.map(move |named| (role, named))
            }) {
                // The object that is wrapped has usages of this role, or none.
                let own: Vec<_> =
                    members.iter().map(|(_, id)| *id).filter(|id| role.usages.contains(id)).collect();
                for own in [own, Vec::new()] {
                    if self.is_real() && !rule::keeps_role(&own, template, true) {
                        continue;
                    }
                    let made = self.made(Source::Unwrapped, template);
                    let clash = self.clashes(&members, &made);
                    self.expect(clash.is_none(), || {
                        let (a, b) = clash.expect("a clash");
                        format!(
                            "C_UnwrapKey: {name}: {} {} comes back for {} {}",
                            a.row, a.usage, b.row, b.usage
                        )
                    });
                }
                self.expect(
                    !self.is_real() || template.is_empty() || !rule::keeps_role(role.usages, template, false),
                    || "C_WrapKey: a key comes back with other templates".to_owned(),
                );
            }
        }
    }

    /// `C_DeriveKey` and `C_DecapsulateKey`, which give the same value again and again.
    fn derivation(&mut self) {
        let named: Vec<&[A]> = ROLES.iter().map(|role| role.usages).chain([&[][..]]).collect();
        // Each party of an agreement has its own template.
        let agreed: Vec<_> = named.iter().flat_map(|named| self.made(Source::Agreed, named)).collect();
        let derived = named.iter().map(|named| self.made(Source::Derived, named));
        let all: Vec<_> =
            derived.map(|made| ("C_DeriveKey", made)).chain([("an agreement", agreed)]).collect();
        for (call, made) in all {
            let clash = self.clashes(&made, &made);
            self.expect(clash.is_none(), || {
                let (a, b) = clash.expect("a clash");
                format!("{call} twice: {} {} beside {} {}", a.row, a.usage, b.row, b.usage)
            });
        }
    }

    /// `C_GenerateKeyPair`: each usage of the public key with each usage of the private key.
    fn pairs(&mut self) {
        const OLD: [(A, A); 4] = [
            (A::WRAP, A::DECRYPT),
            (A::ENCRYPT, A::UNWRAP),
            (A::ENCAPSULATE, A::DECRYPT),
            (A::ENCRYPT, A::DECAPSULATE),
        ];
        let public = [A::ENCRYPT, A::VERIFY, A::WRAP, A::ENCAPSULATE];
        let private = [A::DECRYPT, A::SIGN, A::SIGN_RECOVER, A::UNWRAP, A::DECAPSULATE, A::DERIVE];
        for (key_type, (one, two)) in PAIRS.into_iter().flat_map(|key_type| {
            let all = public.into_iter().flat_map(move |one| private.map(|two| (one, two)));
            all.map(move |usages| (key_type, usages))
        }) {
            let may = match self.is_real() {
                true => strict::roles(|id| id == one || id == two).count() <= 1,
                false => !OLD.contains(&(one, two)),
            };
            // A public key that verifies or encrypts computes nothing with the private key.
            let secret = [A::WRAP, A::ENCAPSULATE].contains(&one);
            if !may || !secret {
                continue;
            }
            let (wraps, opens) = (self.uses(key_type, one), self.uses(key_type, two));
            for wrap in &wraps {
                let clash = opens.iter().find(|open| wrap.clashes(open));
                self.expect(clash.is_none(), || {
                    let by = clash.expect("a clash");
                    format!("C_GenerateKeyPair: {} {one} is opened by {} {two}", wrap.row, by.row)
                });
            }
            let hybrid = |id: &Use| {
                let row = mechanism::find(id.row).expect("a row");
                row.wrapping(&Params::None) == Some(Wrapping::Hybrid)
            };
            let head = opens.iter().find(|open| mechanism::find(open.row).expect("a row").opens_heads());
            if let Some(whole) = wraps.iter().find(|wrap| hybrid(wrap)) {
                self.expect(head.is_none(), || {
                    let head = head.expect("a use").row;
                    format!("{}: {head} opens the head of what {} wrapped", two, whole.row)
                });
            }
        }
    }

    /// `C_WrapKey` and `C_UnwrapKey` with an initial value of the caller, and with nonces: what a
    /// trusted key wraps shows nothing, and another form does not open it.
    fn forms(&mut self) {
        let victim = rule::KeyState { with_trusted: true, extractable: true, ..victims()[0].1 };
        let own = [
            CipherScheme::AesKw { iv: Some([9; 8]), padded: false },
            CipherScheme::AesKwp { iv: Some([9; 4]) },
        ];
        let rows: Vec<_> = mechanism::all().filter(|row| self.flags(row) & does::WRAP != 0).collect();
        for row in rows {
            let is_key_wrap = row.wrapping(&Params::None) == Some(Wrapping::KeyWrap);
            for scheme in own.iter().filter(|_| is_key_wrap) {
                let params = if self.is_real() { Params::Cipher(scheme.clone()) } else { Params::None };
                let wrapping = row.wrapping(&params).expect("a wrapping");
                let secrecy = wrapping.secrecy(Nonce::Caller, LEN);
                let wraps = [WrappingKey::Dedicated, WrappingKey::Shared];
                let wraps = wraps.into_iter().any(|by| rule::wrap(secrecy, by, &victim).is_ok());
                let integrity = wrapping.integrity(0);
                let unwraps = [Template::Open, Template::Protects]
                    .into_iter()
                    .any(|template| rule::unwrap(integrity, Form::Alone, template, Policy::Strict).is_ok());
                self.expect(!wraps && !unwraps, || {
                    format!("C_UnwrapKey: {} under an initial value of the caller opens another form", row.id)
                });
            }
        }
    }

    /// `C_DeriveKey` from a key whose `CKA_DERIVE_TEMPLATE` gives roles. No call has the steps of
    /// two calls: the value would have the role of the first call, and also that of the second.
    fn steps(&mut self) {
        let state = rule::KeyState { counts_steps: true, ..victims()[0].1 };
        for len in [LEN, 2 * LEN + 1] {
            let mut allowed = Vec::new();
            for row in mechanism::all().filter(|row| self.flags(row) & does::DERIVE != 0) {
                for ((params, _), is_base) in
                    parameters(row).into_iter().flat_map(|params| [(params.clone(), true), (params, false)])
                {
                    let keys = if is_base { [state, OPEN] } else { [OPEN, state] };
                    let count = 1 + params.keys().len();
                    let sizes = Sizes { base: len, total: len, wanted: Some(LEN) };
                    let Some(steps) = steps(row, &params, is_base, sizes).filter(|_| is_base || count > 1)
                    else {
                        continue;
                    };
                    let inputs = row.inputs(&params, sizes).expect("a derivation");
                    let weak = strict::check_parameter(&Mechanism { info: row.word(), params }).is_err();
                    if weak
                        || self.is_real() && rule::derive(&inputs, &keys[..count], Policy::Strict).is_err()
                    {
                        continue;
                    }
                    allowed.push((row.id, steps));
                }
            }
            for (whole, steps) in &allowed {
                let mut parts = allowed.iter().filter(|part| part.1.len() < steps.len());
                let first = parts.find(|part| steps.starts_with(&part.1));
                self.expect(first.is_none(), || {
                    let first = first.expect("a call").0;
                    format!("C_DeriveKey in steps: {first} is on the way of {whole}")
                });
            }
            assert!(
                !self.is_real() || allowed.iter().any(|(_, steps)| steps.len() == 2),
                "a call with two steps"
            );
        }
    }

    /// `C_DeriveKey` from a value that cannot be read: the result cannot be read either, and has no
    /// bytes of the value.
    fn results(&mut self) {
        let states = victims().map(|(_, state)| state);
        for call in calls() {
            let row = mechanism::all().find(|row| row.action == Action::Derive(call.derivation));
            if row.is_some_and(|row| strict::refused(row) & does::DERIVE != 0) {
                continue;
            }
            for state in states {
                let sizes = Sizes { base: LEN, total: LEN, wanted: Some(LEN) };
                let inputs = (call.inputs)(sizes);
                let keys = if call.names_key { vec![state, state] } else { vec![state] };
                let Ok(demand) = rule::derive(&inputs, &keys, Policy::Strict) else { continue };
                let hidden = inputs.output == Output::Key
                    && demand.sensitive >= state.sensitive
                    && demand.unextractable >= !state.extractable;
                let flows = [inputs.base, if call.names_key { inputs.named } else { Flow::OneWay }];
                let copies = flows.into_iter().any(Flow::copies);
                self.expect(hidden && !copies, || format!("C_DeriveKey: {:?}", call.derivation));
            }
        }
    }
}

/// A step of a derivation, which takes the result of the step before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The digest of a key.
    Digest,
    /// A code over the key, by a key that the caller knows.
    Message,
    /// A code by the key.
    Code,
    /// A block cipher by the key.
    Encrypt,
}

/// Returns the steps from the base key to the result, or from the key that the parameter names.
/// HMAC digests a key that is longer than a block. `None` if the key is no secret key.
fn steps(row: &MechanismRow, params: &Params, is_base: bool, sizes: Sizes) -> Option<Vec<Step>> {
    let Action::Derive(derivation) = row.action else { return None };
    let code = if sizes.total > 64 { vec![Step::Digest, Step::Code] } else { vec![Step::Code] };
    Some(match (derivation, params) {
        (Derivation::Ecdh | Derivation::Dh | Derivation::PublicKey, _) => return None,
        (Derivation::HashOfKey(_), _) => vec![Step::Digest],
        (Derivation::EncryptData(_), _) => vec![Step::Encrypt],
        (_, Params::Hkdf { extract: true, expand, .. }) => {
            let first = if is_base { vec![Step::Message] } else { code };
            first.into_iter().chain(expand.then_some(Step::Code)).collect()
        }
        (_, Params::Hkdf { .. }) if !is_base => return None,
        // The result is the key itself if it is no longer than a block.
        (_, Params::Ike1Extended { prf: MacFunction::Hmac(hash), shared: None, extra })
            if extra.is_empty()
                && sizes.wanted.is_some_and(|wanted| wanted <= hash.len().min(sizes.base)) =>
        {
            Vec::new()
        }
        (_, Params::IkePrf { data_as_key: true, .. }) => vec![Step::Message],
        _ if is_base => code,
        _ => vec![Step::Message],
    })
}

/// Returns the function of the value of a key that a row computes. `None` if the result is public.
fn function(row: &MechanismRow, params: &Params) -> Option<Function> {
    let mac = |function| match function {
        MacFunction::Hmac(_) | MacFunction::TlsFinished | MacFunction::TlsPrf => Function::Hash,
        _ => Function::BlockCipher,
    };
    Some(match (row.action, params) {
        (Action::Mac(function), _) => mac(function),
        (Action::Cipher(_), _) if row.key_type == Some(KeyType::CHACHA20) => Function::StreamCipher,
        (Action::Cipher(_) | Action::Derive(Derivation::EncryptData(_)), _) => Function::BlockCipher,
        (
            Action::Derive(_),
            Params::Sp800_108 { prf, .. }
            | Params::IkePrf { prf, .. }
            | Params::Ike1Prf { prf, .. }
            | Params::Ike1Extended { prf, .. }
            | Params::Ike2PrfPlus { prf, .. },
        ) => mac(*prf),
        (Action::Derive(Derivation::PublicKey), _) => return None,
        (Action::Derive(Derivation::Ecdh | Derivation::Dh), _)
        | (Action::Encrypt(Asymmetric::EcdhAesWrap(_)), _) => Function::Agreement,
        (Action::Derive(_) | Action::Otp, _) => Function::Hash,
        (
            Action::Sign(Primitive::RsaRaw | Primitive::RsaPkcs1 | Primitive::RsaPss, _) | Action::Encrypt(_),
            _,
        ) => Function::Rsa,
        (Action::Sign(..) | Action::Encapsulate, _) => Function::Other,
        _ => return None,
    })
}
