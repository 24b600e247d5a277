//! Every cipher with a secret key: in one part and in several, with short buffers, altered
//! ciphertexts, wrong lengths, other parameters and keys, and with a saved state.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Memory, ObjectHandle, Structure};

use super::calls::{Calls, NOT_BEGUN, TOO_SMALL, listed, message, refused};
use crate::fixture::{Answer, Fixture, Key, NO_OBJECT, bytes, ensure, flag, open_key, with};
use crate::task::Task;

/// A cipher with a parameter, and what it accepts.
struct Cipher {
    kind: CK_MECHANISM_TYPE,
    /// The text that distinguishes the rows of a mechanism.
    variant: &'static str,
    /// Makes the mechanism. Another number makes another initialisation vector, nonce or counter.
    parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism,
    key: CK_KEY_TYPE,
    key_length: usize,
    accepts: &'static [usize],
    refuses: &'static [usize],
    /// The number of bytes by which the ciphertext is longer than a message of the first length.
    growth: usize,
    /// True if an altered ciphertext is an error.
    authentic: bool,
}

const ANY: &[usize] = &[1, 15, 16, 17, 100, 1000];
const BLOCKS: &[usize] = &[16, 48, 1024];
const NO_BLOCKS: &[usize] = &[1, 15, 17];
const EIGHTS: &[usize] = &[8, 16, 24, 1000];
const STOLEN: &[usize] = &[16, 17, 31, 32, 33, 1000];

/// A row for each cipher, and for each form of its parameter.
const CIPHERS: &[Cipher] = &[
    Cipher { accepts: BLOCKS, refuses: NO_BLOCKS, ..cipher(CKM_AES_ECB, |kind, _| Mechanism::new(kind)) },
    Cipher { accepts: BLOCKS, refuses: NO_BLOCKS, ..cipher(CKM_AES_CBC, iv::<16>) },
    Cipher { growth: 15, ..cipher(CKM_AES_CBC_PAD, iv::<16>) },
    Cipher { accepts: STOLEN, refuses: &[1, 15], ..cipher(CKM_AES_CTS, iv::<16>) },
    variant(cipher(CKM_AES_CTR, ctr::<32>), " and a counter of 32 bits"),
    variant(cipher(CKM_AES_CTR, ctr::<128>), " and a counter of 128 bits"),
    cipher(CKM_AES_OFB, iv::<16>),
    cipher(CKM_AES_CFB1, iv::<16>),
    cipher(CKM_AES_CFB8, iv::<16>),
    Cipher { accepts: EIGHTS, refuses: &[1, 9], ..cipher(CKM_AES_CFB64, iv::<16>) },
    cipher(CKM_AES_CFB128, iv::<16>),
    variant(authentic(16, CKM_AES_GCM, gcm::<33, 16>), " and a nonce of 33 bytes"),
    variant(authentic(4, CKM_AES_GCM, gcm::<12, 4>), " and a tag of 4 bytes"),
    variant(authentic(12, CKM_AES_GCM, gcm::<12, 12>), " and a tag of 12 bytes"),
    variant(authentic(16, CKM_AES_GCM, gcm::<12, 16>), " and a tag of 16 bytes"),
    variant(ccm_of(4, ccm::<7, 4>), " and a nonce of 7 bytes"),
    variant(ccm_of(8, ccm::<13, 8>), " and a nonce of 13 bytes"),
    variant(ccm_of(16, ccm::<12, 16>), " and a nonce of 12 bytes"),
    key_wrap(|kind, _| Mechanism::new(kind)),
    variant(key_wrap(iv::<8>), " and an initial value"),
    key_wrap_pkcs7(|kind, _| Mechanism::new(kind)),
    variant(key_wrap_pkcs7(iv::<8>), " and an initial value"),
    authentic(15, CKM_AES_KEY_WRAP_KWP, |kind, _| Mechanism::new(kind)),
    variant(authentic(15, CKM_AES_KEY_WRAP_KWP, iv::<4>), " and an initial value"),
    authentic(15, CKM_AES_KEY_WRAP_PAD, |kind, _| Mechanism::new(kind)),
    variant(authentic(15, CKM_AES_KEY_WRAP_PAD, iv::<4>), " and an initial value"),
    variant(keyed(xts(), CKK_AES_XTS, 32), " and AES-128"),
    variant(keyed(xts(), CKK_AES_XTS, 64), " and AES-256"),
    variant(keyed(cipher(CKM_CHACHA20, chacha20::<8>), CKK_CHACHA20, 32), " and a nonce of 8 bytes"),
    variant(keyed(cipher(CKM_CHACHA20, chacha20::<12>), CKK_CHACHA20, 32), " and a nonce of 12 bytes"),
    keyed(authentic(16, CKM_CHACHA20_POLY1305, poly1305), CKK_CHACHA20, 32),
    des3(Cipher { accepts: EIGHTS, ..cipher(CKM_DES3_ECB, |kind, _| Mechanism::new(kind)) }),
    des3(Cipher { accepts: EIGHTS, ..cipher(CKM_DES3_CBC, iv::<8>) }),
    Cipher { growth: 7, refuses: &[], ..des3(cipher(CKM_DES3_CBC_PAD, iv::<8>)) },
];

const fn cipher(kind: CK_MECHANISM_TYPE, parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism) -> Cipher {
    let (key, variant) = (CKK_AES, "");
    let (accepts, refuses) = (ANY, &[]);
    Cipher { kind, variant, parameter, key, key_length: 32, accepts, refuses, growth: 0, authentic: false }
}

const fn variant(cipher: Cipher, variant: &'static str) -> Cipher {
    Cipher { variant, ..cipher }
}

const fn keyed(cipher: Cipher, key: CK_KEY_TYPE, key_length: usize) -> Cipher {
    Cipher { key, key_length, ..cipher }
}

const fn authentic(
    growth: usize,
    kind: CK_MECHANISM_TYPE,
    parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism,
) -> Cipher {
    Cipher { growth, authentic: true, ..cipher(kind, parameter) }
}

/// The parameter of AES-CCM has the length of the message.
const fn ccm_of(tag: usize, parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism) -> Cipher {
    Cipher { accepts: &[100], refuses: &[99, 101], ..authentic(tag, CKM_AES_CCM, parameter) }
}

const fn key_wrap(parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism) -> Cipher {
    Cipher { accepts: &[16, 24, 1000], refuses: &[8, 17], ..authentic(8, CKM_AES_KEY_WRAP, parameter) }
}

const fn key_wrap_pkcs7(parameter: fn(CK_MECHANISM_TYPE, u8) -> Mechanism) -> Cipher {
    let cipher = authentic(16, CKM_AES_KEY_WRAP_PKCS7, parameter);
    Cipher { accepts: &[8, 15, 16, 17, 24, 1000], refuses: &[1, 7], ..cipher }
}

const fn xts() -> Cipher {
    Cipher { accepts: &[16, 17, 31, 32, 1000], refuses: &[1, 15], ..cipher(CKM_AES_XTS, iv::<16>) }
}

const fn des3(cipher: Cipher) -> Cipher {
    Cipher { refuses: &[1, 7, 9, 15, 17], ..keyed(cipher, CKK_DES3, 24) }
}

fn iv<const LENGTH: usize>(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    Mechanism::with_bytes(kind, &[number; LENGTH])
}

fn ctr<const BITS: usize>(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    Structure::new().number(BITS as CK_ULONG).inline(&[number; 16]).mechanism(kind)
}

fn gcm<const NONCE: usize, const TAG: usize>(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    let parameter = Structure::new().bytes(&[number; NONCE]).number(NONCE as CK_ULONG * 8).bytes(b"more");
    parameter.number(TAG as CK_ULONG * 8).mechanism(kind)
}

fn ccm<const NONCE: usize, const TAG: usize>(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    let parameter = Structure::new().number(100).bytes(&[number; NONCE]).bytes(b"more");
    parameter.number(TAG as CK_ULONG).mechanism(kind)
}

fn chacha20<const NONCE: usize>(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    let counter_bits = if NONCE == 8 { 64 } else { 32 };
    let (counter, nonce) = (Memory::of(&[0; 8]), Memory::of(&[number; NONCE]));
    let parameter = Structure::new().pointer(&counter).number(counter_bits).pointer(&nonce);
    parameter.number(NONCE as CK_ULONG * 8).mechanism(kind)
}

fn poly1305(kind: CK_MECHANISM_TYPE, number: u8) -> Mechanism {
    Structure::new().bytes(&[number; 12]).bytes(b"more").mechanism(kind)
}

/// The function under test, the situation, further codes that the specification allows, and the
/// calls, which fail if a module gives another result.
type Check = (&'static str, &'static str, &'static [CK_RV], fn(&Trial<'_>) -> Answer);

const CHECKS: &[Check] = &[
    ("C_EncryptUpdate", "in odd parts", &[], in_parts),
    ("C_Encrypt", "into short and long buffers", &[], short_buffers),
    ("C_EncryptFinal", "into short buffers", &[], short_parts),
    ("C_Decrypt", "of altered ciphertexts", &[], altered),
    ("C_Encrypt", "of wrong lengths", &[], wrong_lengths),
    ("C_EncryptInit", "again, and with other parameters", &[], again),
    ("C_EncryptInit", "with wrong keys and parameters", &[], wrong_keys),
    (
        "C_SetOperationState",
        "in the middle of a message",
        &[CKR_FUNCTION_NOT_SUPPORTED, CKR_STATE_UNSAVEABLE],
        saved,
    ),
];

pub fn tasks() -> Vec<Task> {
    let pairs = CIPHERS.iter().flat_map(|cipher| CHECKS.iter().map(move |check| (cipher, check)));
    let tasks = pairs.map(|(cipher, (function, situation, codes, run))| {
        let name = format!("{situation}, with {{}}{}", cipher.variant);
        listed(function, &name, (cipher.kind, CKF_ENCRYPT | CKF_DECRYPT), codes, |fixture| {
            run(&Trial::of(fixture, cipher)?)
        })
    });
    tasks.collect()
}

/// Checks the last row of a mechanism in a single part and in several.
pub fn works(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let cipher = CIPHERS.iter().rfind(|cipher| cipher.kind == kind).unwrap_or(&CIPHERS[0]);
    let trial = Trial::of(fixture, cipher)?;
    let message = message(if kind == CKM_AES_CCM { 100 } else { 48 }, 1);
    let sealed = trial.whole(ENCRYPT, 1, &message)?;
    ensure("C_Decrypt", trial.whole(DECRYPT, 1, &sealed)? == message && sealed != message)?;
    // PKCS#11 3.2, "AES-CCM": the parameter has the length of the full message. Some modules accept
    // the message only in a single part.
    if kind == CKM_AES_CCM {
        return Ok(());
    }
    ensure("C_EncryptFinal", trial.parts(ENCRYPT, 1, &message, &[7])? == sealed)
}

/// The names of the functions of one direction, and their codes for a wrong length.
#[derive(Clone, Copy)]
struct Way {
    init: &'static str,
    whole: &'static str,
    update: &'static str,
    last: &'static str,
    wrong_length: CK_RV,
}

const ENCRYPT: Way = Way {
    init: "C_EncryptInit",
    whole: "C_Encrypt",
    update: "C_EncryptUpdate",
    last: "C_EncryptFinal",
    wrong_length: CKR_DATA_LEN_RANGE,
};
const DECRYPT: Way = Way {
    init: "C_DecryptInit",
    whole: "C_Decrypt",
    update: "C_DecryptUpdate",
    last: "C_DecryptFinal",
    wrong_length: CKR_ENCRYPTED_DATA_LEN_RANGE,
};

const INVALID: &[CK_RV] =
    &[CKR_ENCRYPTED_DATA_INVALID, CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_AEAD_DECRYPT_FAILED];

type Passage = (Way, Vec<u8>, Vec<u8>);

/// A cipher with a key, and a session for its operations.
struct Trial<'a> {
    calls: Calls<'a>,
    cipher: &'a Cipher,
    key: ObjectHandle,
}

/// Creates the key of a cipher. It may encrypt and decrypt, or it has no usage.
fn key(fixture: &Fixture<'_>, cipher: &Cipher, able_to: bool) -> Answer<ObjectHandle> {
    // Each byte of a DES key has an odd number of bits set, and its three parts differ. So do the
    // two parts of an XTS key.
    const ODD: [u8; 8] = [1, 2, 4, 7, 8, 11, 13, 14];
    let value: Vec<u8> = (0..cipher.key_length).map(|at| ODD[(at + at / 8) % 8]).collect();
    let template = with(open_key(CKO_SECRET_KEY, cipher.key), bytes(CKA_VALUE, value));
    let usages = [CKA_ENCRYPT, CKA_DECRYPT].map(|usage| flag(usage, able_to));
    fixture.create_object(&usages.into_iter().fold(template, with))
}

impl<'a> Trial<'a> {
    fn of(fixture: &'a Fixture<'a>, cipher: &'a Cipher) -> Answer<Self> {
        Ok(Self { calls: Calls::new(fixture)?, cipher, key: key(fixture, cipher, true)? })
    }

    fn beside(&self) -> Answer<Self> {
        Ok(Self { calls: Calls::new(self.calls.fixture)?, ..*self })
    }

    fn mechanism(&self, number: u8) -> Mechanism {
        (self.cipher.parameter)(self.cipher.kind, number)
    }

    fn init(&self, way: Way, number: u8) -> Answer {
        self.calls.init(way.init, &self.mechanism(number), self.key)
    }

    fn whole(&self, way: Way, number: u8, data: &[u8]) -> Answer<Vec<u8>> {
        self.init(way, number)?;
        self.calls.output(way.whole, Some(data))
    }

    /// Processes data in parts whose lengths are those of the list in turn.
    fn parts(&self, way: Way, number: u8, data: &[u8], lengths: &[usize]) -> Answer<Vec<u8>> {
        self.init(way, number)?;
        let (mut made, mut rest) = (Vec::new(), data);
        for length in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*length).min(rest.len()));
            made.extend(self.calls.output(way.update, Some(part))?);
            rest = after;
        }
        made.extend(self.calls.output(way.last, None)?);
        Ok(made)
    }

    /// Returns the encryption and the decryption of a message.
    fn both_ways(&self, length: usize) -> Answer<[Passage; 2]> {
        let message = message(length, 1);
        let sealed = self.whole(ENCRYPT, 1, &message)?;
        Ok([(ENCRYPT, message.clone(), sealed.clone()), (DECRYPT, sealed, message)])
    }

    fn longest(&self) -> usize {
        self.cipher.accepts[self.cipher.accepts.len() - 1]
    }
}

fn in_parts(trial: &Trial<'_>) -> Answer {
    for length in trial.cipher.accepts {
        for (way, input, output) in trial.both_ways(*length)? {
            ensure(way.whole, trial.whole(way, 1, &input)? == output && input != output)?;
            for lengths in [&[1, 3, 17][..], &[16], &[5, 64, 31]] {
                ensure(way.last, trial.parts(way, 1, &input, lengths)? == output)?;
            }
        }
    }
    let [(_, message, sealed), _] = trial.both_ways(trial.cipher.accepts[0])?;
    ensure("C_Encrypt", sealed.len() == message.len() + trial.cipher.growth)
}

/// Checks that a short buffer keeps the operation active, and returns a sufficient length. A buffer
/// that is longer than the output keeps its other bytes.
fn short_buffers(trial: &Trial<'_>) -> Answer {
    let calls = &trial.calls;
    for (way, input, output) in trial.both_ways(trial.longest())? {
        let input = || vec![Arg::Bytes(&input)];
        trial.init(way, 1)?;
        let bound = calls.length(way.whole, input())?;
        for short in [0, 1, output.len() - 1] {
            let (needed, outcome) = calls.fill(way.whole, input(), &mut vec![0; short]);
            refused(way.whole, outcome, TOO_SMALL)?;
            ensure(way.whole, (output.len()..=bound).contains(&needed))?;
        }
        let mut exact = vec![0; output.len()];
        calls.fill(way.whole, input(), &mut exact).1?;
        ensure(way.whole, exact == output)?;
        refused(way.whole, calls.length(way.whole, input()), NOT_BEGUN)?;
        trial.init(way, 1)?;
        let mut room = vec![0xaa; bound + 40];
        calls.fill(way.whole, input(), &mut room).1?;
        ensure(way.whole, room.starts_with(&output) && room[bound..] == [0xaa; 40])?;
    }
    Ok(())
}

/// Checks that a short buffer loses no bytes of an update or of the end.
fn short_parts(trial: &Trial<'_>) -> Answer {
    let calls = &trial.calls;
    for (way, input, output) in trial.both_ways(trial.longest())? {
        trial.init(way, 1)?;
        let mut made = calls.output(way.update, Some(&input))?;
        calls.cancel(way.init)?;
        trial.init(way, 1)?;
        if !made.is_empty() {
            let mut short = vec![0; made.len() - 1];
            let (needed, outcome) = calls.fill(way.update, vec![Arg::Bytes(&input)], &mut short);
            refused(way.update, outcome, TOO_SMALL)?;
            ensure(way.update, needed >= made.len())?;
        }
        ensure(way.update, calls.output(way.update, Some(&input))? == made)?;
        let left = output.len() - made.len();
        ensure(way.last, calls.length(way.last, vec![])? >= left)?;
        if left > 0 {
            let (needed, outcome) = calls.fill(way.last, vec![], &mut vec![0; left - 1]);
            refused(way.last, outcome, TOO_SMALL)?;
            ensure(way.last, needed >= left)?;
        }
        let mut end = vec![0; left];
        calls.fill(way.last, vec![], &mut end).1?;
        made.extend(end);
        ensure(way.last, made == output)?;
        refused(way.last, calls.length(way.last, vec![]), NOT_BEGUN)?;
    }
    Ok(())
}

/// Checks that an altered ciphertext is an error or gives another message, and that the next
/// operation works.
fn altered(trial: &Trial<'_>) -> Answer {
    let [(_, message, sealed), _] = trial.both_ways(trial.cipher.accepts[0])?;
    for at in [0, sealed.len() - 1] {
        let mut flipped = sealed.clone();
        flipped[at] ^= 1;
        for outcome in [trial.whole(DECRYPT, 1, &flipped), trial.parts(DECRYPT, 1, &flipped, &[7, 16])] {
            match outcome {
                Ok(other) => ensure("C_Decrypt", !trial.cipher.authentic && other != message)?,
                Err(failure) => refused::<()>("C_Decrypt", Err(failure), INVALID)?,
            }
        }
        ensure("C_Decrypt", trial.whole(DECRYPT, 1, &sealed)? == message)?;
        ensure("C_DecryptFinal", trial.parts(DECRYPT, 1, &sealed, &[7, 16])? == message)?;
    }
    Ok(())
}

/// Checks that wrong lengths have their codes and end the operation.
fn wrong_lengths(trial: &Trial<'_>) -> Answer {
    let calls = &trial.calls;
    for length in trial.cipher.refuses {
        for (way, length) in [(ENCRYPT, *length), (DECRYPT, length + trial.cipher.growth)] {
            let (data, codes) = (message(length, 1), &[way.wrong_length]);
            trial.init(way, 1)?;
            let outcome = calls.fill(way.whole, vec![Arg::Bytes(&data)], &mut vec![0; length + 32]).1;
            refused(way.whole, outcome, codes)?;
            refused(way.whole, calls.length(way.whole, vec![Arg::Bytes(&data)]), NOT_BEGUN)?;
            refused(way.last, trial.parts(way, 1, &data, &[7]), codes)?;
            refused(way.last, calls.length(way.last, vec![]), NOT_BEGUN)?;
        }
    }
    if !trial.cipher.authentic {
        return Ok(());
    }
    let codes = &[CKR_ENCRYPTED_DATA_LEN_RANGE];
    for short in [0, trial.cipher.growth.min(8) - 1] {
        trial.init(DECRYPT, 1)?;
        let outcome = calls.fill("C_Decrypt", vec![Arg::Bytes(&message(short, 1))], &mut [0; 64]).1;
        refused("C_Decrypt", outcome, codes)?;
    }
    // An operation that fails without data leaves no state either.
    trial.init(DECRYPT, 1)?;
    refused("C_DecryptFinal", calls.fill("C_DecryptFinal", vec![], &mut [0; 64]).1, codes)?;
    let [_, (_, sealed, message)] = trial.both_ways(trial.cipher.accepts[0])?;
    ensure("C_Decrypt", trial.whole(DECRYPT, 1, &sealed)? == message)
}

/// Checks that each operation starts over with its own parameter, also after a cancelled one.
fn again(trial: &Trial<'_>) -> Answer {
    let message = message(trial.cipher.accepts[0], 1);
    let same = trial.mechanism(1).parameter.is_empty();
    let sealed = [trial.beside()?.whole(ENCRYPT, 1, &message)?, trial.beside()?.whole(ENCRYPT, 2, &message)?];
    ensure("C_Encrypt", same == (sealed[0] == sealed[1]))?;
    for _ in 0..2 {
        for (number, sealed) in [1, 2].into_iter().zip(&sealed) {
            for (way, input, output) in [(ENCRYPT, &message, sealed), (DECRYPT, sealed, &message)] {
                trial.init(way, number)?;
                refused(way.init, trial.init(way, number), &[CKR_OPERATION_ACTIVE])?;
                trial.calls.output(way.update, Some(input))?;
                trial.calls.cancel(way.init)?;
                ensure(way.whole, trial.whole(way, number, input)? == *output)?;
                ensure(way.last, trial.parts(way, number, input, &[3])? == *output)?;
            }
        }
    }
    Ok(())
}

fn wrong_keys(trial: &Trial<'_>) -> Answer {
    const TYPES: &[CK_RV] = &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED];
    let (calls, good) = (&trial.calls, trial.mechanism(1));
    let odd = Mechanism::with_bytes(trial.cipher.kind, &[1; 7]);
    let (idle, other) = (key(calls.fixture, trial.cipher, false)?, calls.fixture.key(Key::Generic)?);
    for way in [ENCRYPT, DECRYPT] {
        for (mechanism, key, codes) in [
            (&good, idle, &[CKR_KEY_FUNCTION_NOT_PERMITTED][..]),
            (&good, other, TYPES),
            (&good, NO_OBJECT, &[CKR_KEY_HANDLE_INVALID]),
        ] {
            refused(way.init, calls.init(way.init, mechanism, key), codes)?;
        }
        // ECB has no parameter, so a token may ignore this one.
        if ![CKM_AES_ECB, CKM_DES3_ECB].contains(&trial.cipher.kind) {
            refused(way.init, calls.init(way.init, &odd, trial.key), &[CKR_MECHANISM_PARAM_INVALID])?;
        }
        refused(way.whole, calls.length(way.whole, vec![Arg::Bytes(b"")]), NOT_BEGUN)?;
    }
    Ok(())
}

/// Checks that a saved operation continues in its session and in another one, after an operation
/// with another parameter.
fn saved(trial: &Trial<'_>) -> Answer {
    let other = trial.beside()?;
    for (way, input, output) in trial.both_ways(trial.longest())? {
        // In the middle of a block, and at its end.
        for at in [input.len() / 2 + 3, 16, 8].map(|at| at.min(input.len() - 1)) {
            trial.init(way, 1)?;
            let begun = trial.calls.output(way.update, Some(&input[..at]))?;
            let state = trial.calls.output("C_GetOperationState", None)?;
            trial.calls.cancel(way.init)?;
            trial.whole(ENCRYPT, 2, &message(trial.longest(), 1))?;
            for calls in [&other.calls, &trial.calls] {
                let arguments = vec![Arg::Bytes(&state), Arg::Number(trial.key.0), Arg::Number(0)];
                calls.call("C_SetOperationState", arguments)?;
                let rest = calls.output(way.update, Some(&input[at..]))?;
                let made = [begun.clone(), rest, calls.output(way.last, None)?].concat();
                ensure("C_SetOperationState", made == output)?;
            }
        }
    }
    Ok(())
}
