//! A vector in a form that any interface can carry out, and the judgement of the result.

#![allow(missing_docs, reason = "fields have the names of the algorithms' standards, as RFC 8017")]

use crate::{Curve, deviations::deviation};

/// A vector of a set.
#[derive(Debug)]
pub struct Case {
    /// The number of the vector in the set.
    pub number: usize,
    /// The comment of the set.
    pub comment: String,
    /// The result that the set expects.
    pub expected: Expected,
    /// `None` if PKCS#11 cannot express the vector.
    pub operation: Option<Operation>,
}

/// The result that a set expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The operation must succeed.
    Valid,
    /// The operation must fail.
    Invalid,
    /// The operation may fail, for example because a hash is weak.
    Acceptable,
}

/// What a vector does, with its inputs and the expected output. Hash functions, ciphers and
/// parameter sets have their published names, for example `SHA-512/256`, `AES-GCM` and `ML-DSA-44`.
///
/// - `SignEddsa` signs with Ed25519 or Ed448. With `prehash`, the hash of the message is signed.
/// - `Sign` signs with ML-DSA, without random bytes.
/// - `Crypt` encrypts and decrypts. The sealed message ends with the tag.
/// - `Mac` makes a tag, which may be truncated.
/// - `Keys` checks that the two keys of a pair belong together.
/// - `Kem` encapsulates with the public key of ML-KEM, and decapsulates `ciphertext`. The result of
///   an encapsulation is not compared: random bytes of a vector are no input of PKCS#11.
#[derive(Debug)]
pub enum Operation {
    Verify { key: PublicKey, scheme: Scheme, message: Vec<u8>, signature: Vec<u8> },
    Digest { hash: String, message: Vec<u8>, digest: Vec<u8> },
    SignEddsa { key: EdwardsKey, prehash: Option<String>, message: Vec<u8>, signature: Vec<u8> },
    Sign { pair: Pair, scheme: Scheme, message: Vec<u8>, signature: Vec<u8> },
    Crypt { cipher: String, parameter: Parameter, key: Vec<u8>, plain: Vec<u8>, sealed: Vec<u8> },
    Mac { mac: Mac, key: Vec<u8>, message: Vec<u8>, tag: Vec<u8> },
    Hkdf { hash: String, key: Vec<u8>, salt: Vec<u8>, info: Vec<u8>, output: Vec<u8> },
    Decrypt { key: RsaKey, padding: Padding, plain: Vec<u8>, sealed: Vec<u8> },
    Agree { curve: &'static Curve, scalar: Vec<u8>, peer: Vec<u8>, secret: Vec<u8> },
    Keys(Pair),
    Kem { pair: Pair, ciphertext: Option<Vec<u8>>, secret: Option<Vec<u8>> },
}

/// A public key that verifies signatures. The family of a stateful key is HSS, XMSS or XMSSMT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: &'static Curve, point: Vec<u8> },
    MlDsa { set: String, key: Vec<u8> },
    Stateful { family: String, key: Vec<u8> },
}

/// A signature scheme with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    Pkcs1 {
        hash: String,
    },
    Pss {
        hash: String,
        mgf: String,
        salt_len: usize,
    },
    Ecdsa {
        hash: String,
    },
    Ed25519,
    Ed448,
    MlDsa {
        context: Vec<u8>,
    },
    /// The message is a message representative.
    MlDsaMu,
    Stateful {
        family: String,
    },
}

/// The parameters of a symmetric cipher. A cipher that lacks a parameter ignores it.
#[derive(Debug)]
pub struct Parameter {
    pub iv: Vec<u8>,
    pub aad: Vec<u8>,
    pub tag_len: usize,
    pub counter: u64,
}

/// A MAC with its parameters.
#[derive(Debug)]
pub enum Mac {
    Cmac,
    Xcbc,
    Gmac { iv: Vec<u8> },
    Hmac { hash: String },
}

/// The padding of an RSA encryption.
#[derive(Debug)]
pub enum Padding {
    Pkcs1,
    Oaep { hash: String, mgf: String, label: Vec<u8> },
}

/// A private RSA key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaKey {
    pub n: Vec<u8>,
    pub e: Vec<u8>,
    pub d: Vec<u8>,
    pub p: Vec<u8>,
    pub q: Vec<u8>,
    pub dp: Vec<u8>,
    pub dq: Vec<u8>,
    pub qinv: Vec<u8>,
}

/// A private key of Ed25519 or Ed448, and the context of its signatures.
#[derive(Debug)]
pub struct EdwardsKey {
    /// The curve.
    pub curve: &'static Curve,
    /// The private key of RFC 8032.
    pub seed: Vec<u8>,
    /// The expected public key, if the vector has it.
    pub public: Option<Vec<u8>>,
    /// `None` for pure Ed25519, which has no context.
    pub context: Option<Vec<u8>>,
}

/// The parts that a vector has of an ML-DSA, ML-KEM or SLH-DSA key pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The parameter set.
    pub set: String,
    /// The seed. With it, the other parts are expected results.
    pub seed: Option<Vec<u8>>,
    /// The expanded private key.
    pub private: Option<Vec<u8>>,
    /// The public key.
    pub public: Option<Vec<u8>>,
}

/// Why an operation did not give the expected output.
#[derive(Debug)]
pub enum Miss<E> {
    /// The interface returned an error.
    Error(E),
    /// The output is another one.
    Differs,
    /// The interface cannot express the vector, or does not support the size of the key.
    Inexpressible,
}

impl<E> From<E> for Miss<E> {
    fn from(error: E) -> Self {
        Self::Error(error)
    }
}

/// The results of a set.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of vectors that were run.
    pub executed: usize,
    /// The number of vectors that could not be expressed.
    pub skipped: usize,
    /// The vectors whose result differs from the set.
    pub deviations: Vec<Deviation>,
    /// The vectors of the list of known deviations whose result does not differ from the set.
    pub outdated: Vec<usize>,
}

/// A vector whose result differs from the set.
#[derive(Debug)]
pub struct Deviation {
    /// The number of the vector in the set.
    pub test: usize,
    /// The comment of the set.
    pub comment: String,
    /// The result that the set expects.
    pub expected: Expected,
    /// The result of the interface.
    pub got: String,
    /// Why the result is right, if the list of known deviations has the vector.
    pub reason: Option<&'static str>,
}

impl Tally {
    /// Adds the outcome of a vector. `describe` returns the text of an error, or `Err` with the
    /// text if the error means that the interface failed, not that it refused the vector.
    pub(crate) fn add<E>(
        &mut self,
        set: &str,
        case: &Case,
        outcome: Result<(), Miss<E>>,
        describe: impl Fn(&E) -> Result<String, String>,
    ) {
        let described = match &outcome {
            Err(Miss::Inexpressible) => {
                self.skipped += 1;
                return;
            }
            Ok(()) => Ok("accepted".to_owned()),
            Err(Miss::Differs) => Ok("another result".to_owned()),
            Err(Miss::Error(error)) => describe(error),
        };
        let right = match (case.expected, &outcome) {
            (Expected::Valid, outcome) => outcome.is_ok(),
            (Expected::Acceptable, Err(Miss::Differs)) => false,
            (Expected::Acceptable, _) => true,
            // A wrong signature is no refusal.
            (Expected::Invalid, Err(Miss::Differs)) => {
                !matches!(case.operation, Some(Operation::Sign { .. }))
            }
            (Expected::Invalid, outcome) => outcome.is_err() && described.is_ok(),
        };
        self.executed += 1;
        match (right, deviation(set, case.number)) {
            (true, None) => (),
            (true, Some(_)) => self.outdated.push(case.number),
            (false, reason) => self.deviations.push(Deviation {
                test: case.number,
                comment: case.comment.clone(),
                expected: case.expected,
                got: described.unwrap_or_else(|failure| failure),
                reason,
            }),
        }
    }
}
