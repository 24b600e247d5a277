//! "Message-based" encryption, decryption, signing and verification.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Memory, ObjectHandle, Structure};

use super::calls::{Calls, NOT_BEGUN as OVER, TOO_SMALL, listed, message as data, refused};
use super::{Case, Handle, INVALID, NO_HANDLE, Run, UNKNOWN, case, starts};
use crate::fixture::{Answer, Fixture, Key, SECRET, able, bytes, ensure, open_key, with};
use crate::task::Task;

const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
const ACTIVE: &[CK_RV] = &[CKR_OPERATION_ACTIVE, CKR_FUNCTION_NOT_SUPPORTED];
const WORKS: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID];
/// A module may lack some generators.
const GENERATES: &[CK_RV] =
    &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID];
const EXHAUSTED: &[CK_RV] =
    &[CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID];
const NOT_PERMITTED: &[CK_RV] = &[CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED];
const AES: Handle = Handle::Private(Key::Aes);
const IDLE: Handle = Handle::Private(Key::Idle);
const EC: Handle = Handle::Private(Key::Ec);
const PUBLIC: Handle = Handle::Public(Key::Ec);

const fn restarts(
    function: &'static str,
    name: &'static str,
    mechanism: CK_MECHANISM_TYPE,
    key: Handle,
) -> Case {
    Case { function, name, expected: ACTIVE, absent: &[], run: Run::Restarts(mechanism, key) }
}

/// A message of an authenticated cipher, with the memory that its parameter points to.
#[derive(Clone)]
pub struct Message {
    kind: CK_MECHANISM_TYPE,
    nonce: Memory,
    tag: Memory,
    fixed_bits: CK_ULONG,
    generator: CK_ULONG,
    length: usize,
}

pub const MORE: &[u8] = b"more";
/// The authenticated ciphers, each with lengths of nonces and tags.
pub const AUTHENTIC: [(CK_MECHANISM_TYPE, &[(usize, usize)]); 3] = [
    (CKM_AES_GCM, &[(33, 12), (12, 4), (12, 16)]),
    (CKM_AES_CCM, &[(7, 4), (13, 16), (12, 8)]),
    (CKM_CHACHA20_POLY1305, &[(12, 16)]),
];

impl Message {
    pub fn of(kind: CK_MECHANISM_TYPE, nonce: &[u8], tag: &[u8], length: usize) -> Self {
        let (nonce, tag) = (Memory::of(nonce), Memory::of(tag));
        Self { kind, nonce, tag, fixed_bits: 0, generator: CKG_NO_GENERATE, length }
    }

    pub fn tagged(&self, tag: &[u8]) -> Self {
        Self { tag: Memory::of(tag), ..self.clone() }
    }

    pub fn tag(&self) -> Vec<u8> {
        self.tag.bytes()
    }

    /// Returns the parameter for a message, which the module writes to.
    pub fn parameter(&self) -> Structure {
        let (nonce, tag) = (self.nonce.len() as CK_ULONG, self.tag.len() as CK_ULONG);
        let made = Structure::new();
        match self.kind {
            CKM_AES_GCM => made.pointer(&self.nonce).number(nonce).number(self.fixed_bits),
            CKM_AES_CCM => {
                let made = made.number(self.length as CK_ULONG).pointer(&self.nonce);
                made.number(nonce).number(self.fixed_bits)
            }
            _ => return made.pointer(&self.nonce).number(nonce).pointer(&self.tag),
        }
        .number(self.generator)
        .pointer(&self.tag)
        .number(if self.kind == CKM_AES_GCM { tag * 8 } else { tag })
    }

    /// Returns the mechanism of C_Encrypt with the same nonce and associated data.
    pub fn single(&self) -> Mechanism {
        let (nonce, tag) = (self.nonce.bytes(), self.tag.len() as CK_ULONG);
        let bits = nonce.len() as CK_ULONG * 8;
        let made = Structure::new();
        match self.kind {
            CKM_AES_GCM => made.bytes(&nonce).number(bits).bytes(MORE).number(tag * 8),
            CKM_AES_CCM => made.number(self.length as CK_ULONG).bytes(&nonce).bytes(MORE).number(tag),
            _ => made.bytes(&nonce).bytes(MORE),
        }
        .mechanism(self.kind)
    }
}

#[derive(Clone, Copy)]
struct Way {
    init: &'static str,
    whole: &'static str,
    begin: &'static str,
    next: &'static str,
}

const ENCRYPT: Way = Way {
    init: "C_MessageEncryptInit",
    whole: "C_EncryptMessage",
    begin: "C_EncryptMessageBegin",
    next: "C_EncryptMessageNext",
};
const DECRYPT: Way = Way {
    init: "C_MessageDecryptInit",
    whole: "C_DecryptMessage",
    begin: "C_DecryptMessageBegin",
    next: "C_DecryptMessageNext",
};
const NO_PARAMETER: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID];
const FORGED: &[CK_RV] = &[CKR_AEAD_DECRYPT_FAILED, CKR_ENCRYPTED_DATA_INVALID];

/// Returns a key of an authenticated cipher, which may also wrap and unwrap.
pub fn key_of(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer<ObjectHandle> {
    let key_type = if kind == CKM_CHACHA20_POLY1305 { CKK_CHACHA20 } else { CKK_AES };
    let template = with(open_key(CKO_SECRET_KEY, key_type), bytes(CKA_VALUE, SECRET));
    fixture.create_object(&able(template, &[CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP]))
}

fn started<'a>(fixture: &'a Fixture<'a>, kind: CK_MECHANISM_TYPE) -> Answer<(Calls<'a>, ObjectHandle)> {
    let (calls, key) = (Calls::new(fixture)?, key_of(fixture, kind)?);
    for way in [ENCRYPT, DECRYPT] {
        calls.init(way.init, &Mechanism::new(kind), key)?;
    }
    Ok((calls, key))
}

/// Processes a message in one part. A refused ciphertext must not leave plaintext in the buffer.
fn one_part(calls: &Calls<'_>, way: Way, message: &Message, data: &[u8]) -> Answer<Vec<u8>> {
    let (parameter, mut out) = (message.parameter(), vec![0xaa; data.len()]);
    let input = vec![Arg::Structure(&parameter), Arg::Bytes(MORE), Arg::Bytes(data)];
    let outcome = calls.fill(way.whole, input, &mut out).1;
    ensure(way.whole, outcome.is_ok() || out.iter().all(|byte| [0, 0xaa].contains(byte)))?;
    outcome.map(|()| out)
}

fn next(
    calls: &Calls<'_>,
    way: Way,
    parameter: &Structure,
    (part, flags): (&[u8], CK_FLAGS),
    out: Arg<'_>,
) -> Answer {
    calls.call(way.next, vec![Arg::Structure(parameter), Arg::Bytes(part), out, Arg::Number(flags)])
}

/// Processes a message in parts whose lengths are those of the list in turn. Each call first gets a
/// buffer that is shorter than the module asks for. It may be long enough only for a part that is
/// not the last, for which the answer may be an upper bound.
fn odd_parts(
    calls: &Calls<'_>,
    way: Way,
    message: &Message,
    data: &[u8],
    lengths: &[usize],
) -> Answer<Vec<u8>> {
    let parameter = message.parameter();
    calls.call(way.begin, vec![Arg::Structure(&parameter), Arg::Bytes(MORE)])?;
    let (mut made, mut rest, mut lengths) = (Vec::new(), data, lengths.iter().cycle());
    loop {
        let length = lengths.next().map_or(rest.len(), |length| (*length).min(rest.len()));
        let (part, after) = rest.split_at(length);
        let flags = if after.is_empty() { CKF_END_OF_MESSAGE } else { 0 };
        let call = |out: Arg<'_>| next(calls, way, &parameter, (part, flags), out);
        let mut needed = 0;
        call(Arg::NoBuffer(&mut needed))?;
        let (mut out, short) = (vec![0; needed as usize], needed.saturating_sub(1));
        let mut length = short;
        let outcome = call(Arg::Buffer(&mut out[..short as usize], &mut length));
        if short < needed && (outcome.is_err() || flags != 0) {
            refused(way.next, outcome, TOO_SMALL)?;
            length = needed;
            call(Arg::Buffer(&mut out, &mut length))?;
        } else {
            outcome?;
        }
        made.extend(&out[..length as usize]);
        rest = after;
        if rest.is_empty() {
            return Ok(made);
        }
    }
}

/// Checks messages of several lengths, in one part and in several, against C_Encrypt.
fn equals_single(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (calls, key) = started(fixture, kind)?;
    let lengths = AUTHENTIC.iter().filter(|(one, _)| *one == kind).flat_map(|(_, lengths)| *lengths);
    for (nonce, tag) in lengths {
        for length in [0, 1, 16, 100, 1000] {
            let (data, new) =
                (data(length, 7), || Message::of(kind, &vec![9; *nonce], &vec![0; *tag], length));
            calls.init("C_EncryptInit", &new().single(), key)?;
            let single = calls.output("C_Encrypt", Some(&data))?;
            let (sealed, tag) = single.split_at(length);
            let message = new();
            let made = one_part(&calls, ENCRYPT, &message, &data)?;
            ensure(ENCRYPT.whole, made == sealed && message.tag() == tag)?;
            ensure(DECRYPT.whole, one_part(&calls, DECRYPT, &new().tagged(tag), sealed)? == data)?;
            for parts in [&[1, 3, 17][..], &[16], &[2000]] {
                let message = new();
                let made = odd_parts(&calls, ENCRYPT, &message, &data, parts)?;
                ensure(ENCRYPT.next, made == sealed && message.tag() == tag)?;
                let opened = odd_parts(&calls, DECRYPT, &new().tagged(tag), sealed, parts)?;
                ensure(DECRYPT.next, opened == data)?;
            }
        }
    }
    Ok(())
}

/// Checks that a forged message returns no data, and ends only this message.
fn forged(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (calls, _) = started(fixture, kind)?;
    let (data, message) = (data(100, 7), Message::of(kind, &[9; 12], &[0; 16], 100));
    let good = one_part(&calls, ENCRYPT, &message, &data)?;
    let spoilt = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x80;
        bytes
    };
    let tag = message.tag();
    for (sealed, tag) in
        [(&good, spoilt(&tag, 0)), (&good, spoilt(&tag, 15)), (&spoilt(&good, 99), tag.clone())]
    {
        let forged = || message.tagged(&tag);
        refused(DECRYPT.whole, one_part(&calls, DECRYPT, &forged(), sealed), FORGED)?;
        refused(DECRYPT.next, odd_parts(&calls, DECRYPT, &forged(), sealed, &[7, 40]), FORGED)?;
        ensure(DECRYPT.whole, one_part(&calls, DECRYPT, &message, &good)? == data)?;
    }
    let (parameter, mut out) = (message.parameter(), [0; 100]);
    let other = vec![Arg::Structure(&parameter), Arg::Bytes(b"less"), Arg::Bytes(&good)];
    refused(DECRYPT.whole, calls.fill(DECRYPT.whole, other, &mut out).1, FORGED)?;
    ensure(DECRYPT.whole, out == [0; 100])
}

/// Encrypts four messages with generated nonces, in one part and in several, and decrypts them.
/// Returns the nonces. A length query and a short buffer use no nonce.
fn generated(
    fixture: &Fixture<'_>,
    kind: CK_MECHANISM_TYPE,
    (generator, fixed_bits): (CK_ULONG, CK_ULONG),
) -> Answer<Vec<Vec<u8>>> {
    let (calls, _) = started(fixture, kind)?;
    let mut nonces: Vec<Vec<u8>> = Vec::new();
    for at in 0..4 {
        let message = Message::of(kind, &[9; 12], &[0; 16], 40);
        let message = Message { generator, fixed_bits, ..message };
        let (data, parameter) = (data(40, 7), message.parameter());
        let input = || vec![Arg::Structure(&parameter), Arg::Bytes(MORE), Arg::Bytes(&data)];
        calls.length(ENCRYPT.whole, input())?;
        refused(ENCRYPT.whole, calls.fill(ENCRYPT.whole, input(), &mut [0; 39]).1, TOO_SMALL)?;
        ensure(ENCRYPT.whole, message.nonce.bytes() == [9; 12])?;
        let sealed = match at {
            2 => odd_parts(&calls, ENCRYPT, &message, &data, &[9])?,
            _ => one_part(&calls, ENCRYPT, &message, &data)?,
        };
        let nonce = message.nonce.bytes();
        let back = Message::of(kind, &nonce, &message.tag(), 40);
        ensure(DECRYPT.whole, one_part(&calls, DECRYPT, &back, &sealed)? == data)?;
        ensure(ENCRYPT.whole, nonce[..fixed_bits as usize / 8] == [9; 12][..fixed_bits as usize / 8])?;
        ensure(ENCRYPT.whole, !nonces.contains(&nonce))?;
        nonces.push(nonce);
    }
    // A counter of two bits is exhausted.
    if fixed_bits == 94 {
        let fifth = Message { generator, fixed_bits, ..Message::of(kind, &[9; 12], &[0; 16], 4) };
        one_part(&calls, ENCRYPT, &fifth, b"data")?;
    }
    Ok(nonces)
}

/// Returns the nonces of a counter in the last bytes, which a generator combines with `start`.
fn counted(start: u8) -> Vec<Vec<u8>> {
    (0..4).map(|at| [&[9; 4][..], &[start; 7], &[start ^ at]].concat()).collect()
}

/// Checks each generator of nonces.
fn generators(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    generated(fixture, kind, (CKG_GENERATE, 32))?;
    generated(fixture, kind, (CKG_GENERATE_RANDOM, 32))?;
    let counters = generated(fixture, kind, (CKG_GENERATE_COUNTER, 32))?;
    ensure("C_EncryptMessage", counters == counted(0))?;
    ensure("C_EncryptMessage", generated(fixture, kind, (CKG_GENERATE_COUNTER_XOR, 32))? == counted(9))
}

/// Returns a case for each check of each authenticated cipher.
pub fn tasks() -> Vec<Task> {
    let tasks = AUTHENTIC.into_iter().flat_map(|(kind, _)| {
        let listed = |function, situation, run: fn(&Fixture<'_>, CK_MECHANISM_TYPE) -> _| {
            listed(function, situation, (kind, CKF_MESSAGE_ENCRYPT), WORKS, move |fixture| run(fixture, kind))
        };
        [
            listed("C_EncryptMessage", "encrypts as C_Encrypt does, with {}", equals_single),
            listed("C_DecryptMessage", "of forged messages, with {}", forged),
        ]
    });
    tasks.collect()
}

// PKCS#11 3.2, "AES-GCM": C_MessageEncryptInit and C_MessageDecryptInit have no parameter, because
// each message has its own, for example in C_EncryptMessage.
pub const CASES: &[Case] = &[
    starts("C_MessageEncryptInit", "with an unknown mechanism", INVALID, UNKNOWN, AES),
    starts("C_MessageEncryptInit", "with a mechanism without message functions", INVALID, CKM_SHA256, AES),
    starts("C_MessageEncryptInit", "with an invalid key handle", NO_HANDLE, CKM_AES_GCM, Handle::Invalid),
    starts("C_MessageEncryptInit", "with a key without CKA_ENCRYPT", NOT_PERMITTED, CKM_AES_GCM, IDLE),
    restarts("C_MessageEncryptInit", "while a message encryption is active", CKM_AES_GCM, AES),
    restarts("C_MessageDecryptInit", "while a message decryption is active", CKM_AES_GCM, AES),
    starts("C_MessageDecryptInit", "with an invalid key handle", NO_HANDLE, CKM_AES_GCM, Handle::Invalid),
    starts("C_MessageDecryptInit", "with a key without CKA_DECRYPT", NOT_PERMITTED, CKM_AES_GCM, IDLE),
    starts("C_MessageSignInit", "with an invalid key handle", NO_HANDLE, CKM_ECDSA, Handle::Invalid),
    starts("C_MessageSignInit", "with a mechanism that does not sign", INVALID, CKM_SHA256, EC),
    starts("C_MessageSignInit", "with a key without CKA_SIGN", NOT_PERMITTED, CKM_AES_CMAC, IDLE),
    restarts("C_MessageSignInit", "while a message signature is active", CKM_ECDSA, EC),
    starts("C_MessageVerifyInit", "with an invalid key handle", NO_HANDLE, CKM_ECDSA, Handle::Invalid),
    starts("C_MessageVerifyInit", "with a key without CKA_VERIFY", NOT_PERMITTED, CKM_AES_CMAC, IDLE),
    restarts("C_MessageVerifyInit", "while a message verification is active", CKM_ECDSA, PUBLIC),
    case("C_EncryptMessageNext", "without C_EncryptMessageBegin", NOT_BEGUN, |fixture| {
        let (calls, _) = started(fixture, CKM_AES_GCM)?;
        let (parameter, mut out, mut length) =
            (Message::of(CKM_AES_GCM, &[9; 12], &[0; 16], 4).parameter(), [0; 4], 4);
        next(&calls, ENCRYPT, &parameter, (b"data", 0), Arg::Buffer(&mut out, &mut length))
    }),
    case("C_EncryptMessage", "without a parameter", EXHAUSTED, |fixture| {
        let (calls, _) = started(fixture, CKM_AES_GCM)?;
        let input = vec![Arg::NullBytes(0), Arg::Bytes(MORE), Arg::Bytes(b"data")];
        calls.fill("C_EncryptMessage", input, &mut [0; 4]).1
    }),
    case("C_EncryptMessage", "with each nonce generator", GENERATES, |fixture| {
        generators(fixture, CKM_AES_GCM)
    }),
    case("C_EncryptMessage", "with AES-CCM and each nonce generator", GENERATES, |fixture| {
        generators(fixture, CKM_AES_CCM)
    }),
    case("C_EncryptMessage", "with an exhausted counter", EXHAUSTED, |fixture| {
        generated(fixture, CKM_AES_GCM, (CKG_GENERATE_COUNTER, 94)).map(drop)
    }),
    case("C_EncryptMessage", "with parameters that do not fit", WORKS, |fixture| {
        let (calls, _) = started(fixture, CKM_AES_CCM)?;
        let other = Message::of(CKM_AES_GCM, &[9; 12], &[0; 16], 4);
        refused(ENCRYPT.whole, one_part(&calls, ENCRYPT, &other, b"data"), NO_PARAMETER)?;
        refused(ENCRYPT.begin, odd_parts(&calls, ENCRYPT, &other, b"data", &[2]), NO_PARAMETER)?;
        let five = Message::of(CKM_AES_CCM, &[9; 12], &[0; 16], 5);
        refused(ENCRYPT.whole, one_part(&calls, ENCRYPT, &five, b"data"), &[CKR_DATA_LEN_RANGE])?;
        refused(ENCRYPT.next, odd_parts(&calls, ENCRYPT, &five, b"data", &[2]), &[CKR_DATA_LEN_RANGE])?;
        let code = &[CKR_ENCRYPTED_DATA_LEN_RANGE];
        refused(DECRYPT.whole, one_part(&calls, DECRYPT, &five, b"data"), code)?;
        // A tag whose length differs from that at the start of the message ends the message.
        let (begun, shorter) = (five.parameter(), five.tagged(&[0; 14]).parameter());
        calls.call(ENCRYPT.begin, vec![Arg::Structure(&begun), Arg::Bytes(MORE)])?;
        for (parameter, codes) in [(&shorter, NO_PARAMETER), (&begun, OVER)] {
            let (mut out, mut length) = ([0; 5], 5);
            let out = Arg::Buffer(&mut out, &mut length);
            let outcome = next(&calls, ENCRYPT, parameter, (b"data!", CKF_END_OF_MESSAGE), out);
            refused(ENCRYPT.next, outcome, codes)?;
        }
        Ok(())
    }),
    // PKCS#11 3.2, "Message-based encryption functions": a message that has begun must end before
    // the next one and before the operation.
    case("C_EncryptMessage", "calls in the wrong order", WORKS, |fixture| {
        const ACTIVE: &[CK_RV] = &[CKR_OPERATION_ACTIVE];
        let (calls, _) = started(fixture, CKM_AES_GCM)?;
        let message = Message::of(CKM_AES_GCM, &[9; 12], &[0; 16], 4);
        let parameter = message.parameter();
        for (way, last) in [(ENCRYPT, "C_MessageEncryptFinal"), (DECRYPT, "C_MessageDecryptFinal")] {
            let begin = || calls.call(way.begin, vec![Arg::Structure(&parameter), Arg::Bytes(MORE)]);
            begin()?;
            refused(way.begin, begin(), ACTIVE)?;
            refused(way.whole, one_part(&calls, way, &message, b"data"), ACTIVE)?;
            refused(last, calls.call(last, vec![]), ACTIVE)?;
            // The message is still active.
            let (mut out, mut length) = ([0; 16], 16);
            next(&calls, way, &parameter, (b"data", 0), Arg::Buffer(&mut out, &mut length))?;
            calls.cancel(way.init)?;
            refused(way.begin, begin(), OVER)?;
        }
        Ok(())
    }),
];
