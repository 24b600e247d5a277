//! Findings H2, H3 and M1 to M3 of the second review (docs/findings.md): keys that derive and are
//! digested. H2 and M1: a block cipher is a permutation of its message, also if the message is a
//! key. H3: equal results of one-way functions show equal bytes. M2 and M3: a result is readable
//! although a key of the derivation hides it.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Memory, Structure};

use super::cuts::{BASE_AND_DATA, DATA_AND_BASE, EXTRACT, Oracle, XOR};
use super::keys::Guarded::{ForTrusted, Kept, Open, Wrappable};
use super::keys::{
    Handle, KNOWN, Template, VICTIM, base, flag, head, hidden, hidden_of, known, known_base, mac_key, number,
    open_of, secret, victim, wrapping,
};
use super::tools::{ECB, HMAC, KW, KWP, With, data, hkdf, named, numbered};
use super::trust::trusted_key;
use super::wraps::xor;
use super::{Attacker, Setup, Table, Tried};

const H2: &str = "Second review, H2";
const H3: &str = "Second review, H3";
const M1: &str = "Second review, M1";
const M2: &str = "Second review, M2";
const M3: &str = "Second review, M3";
const HASHED: CK_MECHANISM_TYPE = CKM_SHA256_KEY_DERIVATION;
const COUNTER: CK_MECHANISM_TYPE = CKM_SP800_108_COUNTER_KDF;
const FEEDBACK: CK_MECHANISM_TYPE = CKM_SP800_108_FEEDBACK_KDF;
const PIPELINE: CK_MECHANISM_TYPE = CKM_SP800_108_DOUBLE_PIPELINE_KDF;
const EXTENDED: CK_MECHANISM_TYPE = CKM_IKE1_EXTENDED_DERIVE;
const TLS_PRF_GENERAL: CK_MECHANISM_TYPE = 0x8000_0373;
const CMAC: CK_MECHANISM_TYPE = CKM_AES_CMAC;
const XCBC: CK_MECHANISM_TYPE = CKM_AES_XCBC_MAC;
/// The length of a block, and of the keys of AES-CMAC-PRF-128 and AES-XCBC-PRF-128.
const BLOCK: usize = 16;

pub fn attacks(t: &Table) {
    permutations(t);
    compressions(t);
    ["C_DigestKey", "SP800_108_COUNTER_KDF", "CKA_CHECK_VALUE", "HMAC", "SHA256_KEY_DERIVATION"]
        .into_iter()
        .for_each(|how| comparisons(t, Comparison(how)));
    halves(t);
    usages(t);
    visible(t);
    templates(t);
}

enum Field<'a> {
    Iteration,
    Bytes(&'a [u8]),
    Key(Handle),
}

/// Returns SP 800-108. The counter of the counter mode has 8 bits. Only the feedback mode has an
/// initialisation vector.
fn sp800_108(
    kind: CK_MECHANISM_TYPE,
    prf: CK_MECHANISM_TYPE,
    start: &[u8],
    fields: &[Field<'_>],
) -> Mechanism {
    let counter = Structure::new().flag(false).number(8).memory().bytes();
    let list = fields.iter().fold(Structure::new(), |list, field| match field {
        Field::Iteration if kind == COUNTER => list.number(CK_SP800_108_ITERATION_VARIABLE).bytes(&counter),
        Field::Iteration => list.number(CK_SP800_108_ITERATION_VARIABLE).bytes(&[]),
        Field::Bytes(bytes) => list.number(CK_SP800_108_BYTE_ARRAY).bytes(bytes),
        Field::Key(key) => list.number(CK_SP800_108_KEY_HANDLE).bytes(&key.0.to_ne_bytes()),
    });
    let parameter = Structure::new().number(prf).number(fields.len() as CK_ULONG).structure(list);
    let parameter = if kind == FEEDBACK { parameter.counted(start) } else { parameter };
    parameter.number(0).null().mechanism(kind)
}

fn ike_prf(prf: CK_MECHANISM_TYPE, nonce_is_key: bool, nonce: &[u8], new_key: Option<Handle>) -> Mechanism {
    let parameter = Structure::new().number(prf).flag(nonce_is_key).flag(new_key.is_some());
    let parameter = parameter.bytes(nonce).bytes(&[]).number(new_key.map_or(0, |key| key.0));
    parameter.mechanism(CKM_IKE_PRF_DERIVE)
}

fn ike1_prf(prf: CK_MECHANISM_TYPE, shared: Handle) -> Mechanism {
    let parameter = Structure::new().number(prf).flag(false).number(shared.0).number(0);
    parameter.bytes(&[]).bytes(&[]).inline(&[0]).mechanism(CKM_IKE1_PRF_DERIVE)
}

fn ike1_extended(prf: CK_MECHANISM_TYPE, shared: Option<Handle>) -> Mechanism {
    let parameter = Structure::new().number(prf).flag(shared.is_some());
    parameter.number(shared.map_or(0, |key| key.0)).bytes(&[]).mechanism(EXTENDED)
}

fn ike2_prf_plus(prf: CK_MECHANISM_TYPE, seed_key: Option<Handle>, seed: &[u8]) -> Mechanism {
    let parameter = Structure::new().number(prf).flag(seed_key.is_some());
    parameter.number(seed_key.map_or(0, |key| key.0)).bytes(seed).mechanism(CKM_IKE2_PRF_PLUS_DERIVE)
}

/// Describes a readable key of one block.
fn block() -> Template {
    open_of(CKK_GENERIC_SECRET, BLOCK)
}

fn prf_key() -> &'static [u8] {
    &KNOWN[..BLOCK]
}

impl Attacker<'_> {
    /// Computes a block of AES with a key that the attacker knows. A real attacker would compute it
    /// outside the module.
    fn aes_block(&self, usage: CK_ATTRIBUTE_TYPE, key: &[u8], block: &[u8]) -> Tried<Vec<u8>> {
        let key = self.import(secret(CKK_AES, key, Open, &[usage]))?;
        if usage == CKA_ENCRYPT { self.encrypted(ECB, key, block) } else { self.decrypted(ECB, key, block) }
    }

    fn prf_base(&self) -> Tried<Handle> {
        self.import(secret(CKK_AES, prf_key(), Open, &[CKA_DERIVE]))
    }

    /// Returns the block in a message whose MAC under the known key is `code`. The block follows
    /// the block `before`, and bytes that are fewer than a block may follow it.
    fn inverted(&self, prf: CK_MECHANISM_TYPE, code: &[u8], before: &[u8], after: &[u8]) -> Tried<Vec<u8>> {
        let of_prf = |block: &[u8]| self.aes_block(CKA_ENCRYPT, prf_key(), block);
        // The key of the cipher, and the masks of a whole and of a padded last block (RFC 4493,
        // 2.3; RFC 3566, 4).
        let (key, whole, padded) = if prf == CMAC {
            let whole = doubled(&of_prf(&[0; BLOCK])?);
            let padded = doubled(&whole);
            (prf_key().to_vec(), whole, padded)
        } else {
            (of_prf(&[1; BLOCK])?, of_prf(&[2; BLOCK])?, of_prf(&[3; BLOCK])?)
        };
        let undone = |block: &[u8]| self.aes_block(CKA_DECRYPT, &key, block);
        let mut block = undone(code)?;
        if after.is_empty() {
            block = xor(&block, &whole);
        } else {
            let mut last = [after, &[0x80]].concat();
            last.resize(BLOCK, 0);
            block = undone(&xor(&xor(&block, &padded), &last))?;
        }
        if before.is_empty() {
            return Ok(block);
        }
        Ok(xor(&block, &self.aes_block(CKA_ENCRYPT, &key, before)?))
    }

    /// Returns the value of a derived key of one block: reads it, wraps it under a known key, or
    /// inverts its MAC.
    fn revealed(&self, key: Handle) -> Tried<Vec<u8>> {
        let wrapped = || {
            let wrapped = self.wrapped(KW, self.import(known(&[CKA_WRAP]))?, key)?;
            self.opened(KW, self.import(known(&[CKA_UNWRAP]))?, &wrapped)
        };
        let inverted = || {
            let with = sp800_108(FEEDBACK, CMAC, &[], &[Field::Iteration, Field::Key(key)]);
            self.inverted(CMAC, &self.value(self.derived(with, self.prf_base()?, block())?)?, &[], &[])
        };
        self.value(key).or_else(|_| wrapped()).or_else(|_| inverted())
    }
}

/// Doubles a number of the field of CMAC (RFC 4493, 2.3).
fn doubled(number: &[u8]) -> Vec<u8> {
    let carry = |at: usize| number.get(at + 1).map_or(0, |next| next >> 7);
    let mut made: Vec<_> = number.iter().enumerate().map(|(at, byte)| byte << 1 | carry(at)).collect();
    made[BLOCK - 1] ^= if number[0] & 0x80 != 0 { 0x87 } else { 0 };
    made
}

/// Returns a derivation with a victim in the message.
type Reads = fn(CK_MECHANISM_TYPE, Handle) -> Mechanism;

/// A place of the victim in a message: its name, the mechanism, and the bytes before and after it.
type Place = (&'static str, CK_MECHANISM_TYPE, Reads, &'static [u8], &'static [u8]);

/// Attacks in which a victim of one block is the message of a block cipher with a known key.
fn permutations(t: &Table) {
    const START: &[u8] = &[5; BLOCK];
    let short = |guarded| secret(CKK_GENERIC_SECRET, &VICTIM[..BLOCK], guarded, &[CKA_DERIVE]);
    let guards = [(Kept, "an unextractable key"), (ForTrusted, "a key with CKA_WRAP_WITH_TRUSTED")];
    let rows: [Place; 9] = [
        (
            "",
            COUNTER,
            |prf, key| sp800_108(COUNTER, prf, &[], &[Field::Key(key), Field::Iteration]),
            &[],
            &[1],
        ),
        (
            "",
            FEEDBACK,
            |prf, key| sp800_108(FEEDBACK, prf, &[], &[Field::Iteration, Field::Key(key)]),
            &[],
            &[],
        ),
        (
            " after an own initialisation vector",
            FEEDBACK,
            |prf, key| sp800_108(FEEDBACK, prf, START, &[Field::Iteration, Field::Key(key)]),
            START,
            &[],
        ),
        (
            " after own bytes",
            FEEDBACK,
            |prf, key| {
                sp800_108(FEEDBACK, prf, &[], &[Field::Iteration, Field::Bytes(START), Field::Key(key)])
            },
            START,
            &[],
        ),
        (" as the new key", CKM_IKE_PRF_DERIVE, |prf, key| ike_prf(prf, false, &[1], Some(key)), &[], &[1]),
        (" as g^xy", CKM_IKE1_PRF_DERIVE, |prf, key| ike1_prf(prf, key), &[], &[0]),
        (" as g^xy", EXTENDED, |prf, key| ike1_extended(prf, Some(key)), &[], &[]),
        (" as the seed", CKM_IKE2_PRF_PLUS_DERIVE, |prf, key| ike2_prf_plus(prf, Some(key), &[]), &[], &[1]),
        (
            " as the seed before own bytes",
            CKM_IKE2_PRF_PLUS_DERIVE,
            |prf, key| ike2_prf_plus(prf, Some(key), b"seed"),
            &[],
            b"seed\x01",
        ),
    ];
    for (guarded, what) in guards {
        let source = if guarded == ForTrusted { M1 } else { H2 };
        for (place, kind, reads, before, after) in rows {
            // SP 800-108 of PKCS#11 has CMAC alone.
            let prfs = if matches!(kind, COUNTER | FEEDBACK) { &[CMAC][..] } else { &[CMAC, XCBC] };
            for prf in prfs.iter().copied() {
                let sp800_108 = matches!(kind, COUNTER | FEEDBACK);
                let name = format!("{} with {} of {what}{place}", named(kind), named(prf));
                t.row(source, name, &[kind, prf], short(guarded)).yields(
                    &VICTIM[..BLOCK],
                    move |a, victim| {
                        // IKE does not lower the protection of its keys.
                        let made = match guarded {
                            _ if sp800_108 => block(),
                            Kept => hidden_of(CKK_GENERIC_SECRET, BLOCK, &[CKA_DERIVE]),
                            _ => block().guarded(Wrappable),
                        };
                        let made = a.derived(reads(prf, victim), a.prf_base()?, made)?;
                        a.inverted(prf, &a.revealed(made)?, before, after)
                    },
                );
            }
        }
        let name = format!("read the result of {} with AES_CMAC of {what}", named(PIPELINE));
        t.row(source, name, &[PIPELINE, CMAC], short(guarded)).accepted(|a, victim| {
            let with = sp800_108(PIPELINE, CMAC, &[], &[Field::Iteration, Field::Key(victim)]);
            a.value(a.derived(with, a.prf_base()?, block())?)
        });
        for prf in [CMAC, XCBC] {
            let name = format!("IKE_PRF_DERIVE with {} of {what} under own nonces", named(prf));
            let kind = CKM_IKE_PRF_DERIVE;
            t.row(source, name, &[kind, prf], short(guarded)).yields(&VICTIM[..BLOCK], move |a, victim| {
                let template = hidden_of(CKK_GENERIC_SECRET, BLOCK, &[CKA_DERIVE]);
                let made = a.derived(ike_prf(prf, true, prf_key(), None), victim, template)?;
                a.inverted(prf, &a.revealed(made)?, &[], &[])
            });
        }
    }
}

/// Attacks on AES keys over 16 bytes, which IKE compresses with CMAC or cuts.
fn compressions(t: &Table) {
    let name = "IKE1_EXTENDED_DERIVE with AES_CMAC and SP800_108_FEEDBACK_KDF of an AES-256 key";
    t.row(H2, name, &[EXTENDED, FEEDBACK, CMAC], victim(CKK_AES, Kept, &[CKA_DERIVE])).reads(|a, victim| {
        let half = hidden_of(CKK_GENERIC_SECRET, BLOCK, &[CKA_DERIVE]);
        let half = a.revealed(a.derived(ike1_extended(CMAC, None), victim, half)?)?;
        let whole = sp800_108(FEEDBACK, CMAC, &[], &[Field::Iteration, Field::Key(victim)]);
        let code = a.value(a.derived(whole, a.prf_base()?, block())?)?;
        Ok([&half[..], &a.inverted(CMAC, &code, &half, &[])?].concat())
    });
    // The key of the PRF is the CMAC of two blocks under a key of zeros. The attacker changes the
    // second block so that the result is the same if a guess in the first block is right.
    let name = "IKE_PRF_DERIVE with AES_CMAC of own bytes and a key, compared";
    let owned = secret(CKK_GENERIC_SECRET, &VICTIM[..17], Kept, &[CKA_DERIVE]);
    t.row(H2, name, &[CKM_IKE_PRF_DERIVE, CMAC, DATA_AND_BASE, XOR], owned).holds(|a, victim| {
        let long = || hidden_of(CKK_AES, 32, &[CKA_DERIVE]);
        let code = |key| {
            let made = ike_prf(CMAC, false, &[0; BLOCK], None);
            let made = a.derived(made, key, hidden_of(CKK_AES, BLOCK, &[CKA_ENCRYPT]))?;
            a.encrypted(ECB, made, &[0; BLOCK])
        };
        let starts = [[1; BLOCK - 1], [2; BLOCK - 1]];
        let [one, two] = starts.map(|start| a.derived(data(DATA_AND_BASE, &start), victim, long()));
        let (wanted, two) = (code(one?)?, two?);
        for guess in 0..=u8::MAX {
            let [one, two_too] =
                starts.map(|start| a.aes_block(CKA_ENCRYPT, &[0; BLOCK], &[&start[..], &[guess]].concat()));
            let mask = [[0; BLOCK].to_vec(), xor(&one?, &two_too?)].concat();
            if code(a.derived(data(XOR, &mask), two, long())?)? == wanted {
                return Ok(guess == VICTIM[0]);
            }
        }
        Ok(false)
    });
}

/// A function that reads a key beside bytes of the attacker.
#[derive(Clone, Copy)]
struct Comparison(&'static str);

impl Comparison {
    fn usages(self) -> &'static [CK_ATTRIBUTE_TYPE] {
        if self.0 == "HMAC" { &[CKA_DERIVE, CKA_SIGN] } else { &[CKA_DERIVE] }
    }

    /// Returns the result for the key between these bytes.
    fn of(self, a: &Attacker<'_>, before: &[u8], key: Handle, after: &[u8]) -> Tried<Vec<u8>> {
        match self.0 {
            "C_DigestKey" => {
                a.digest_init(&Mechanism::new(CKM_SHA256))?;
                if !before.is_empty() {
                    a.digest_update(before)?;
                }
                a.call("C_DigestKey", vec![Arg::Number(key.0)])?;
                if !after.is_empty() {
                    a.digest_update(after)?;
                }
                a.output("C_DigestFinal", vec![])
            }
            "SP800_108_COUNTER_KDF" => {
                let mut fields =
                    vec![Field::Iteration, Field::Bytes(before), Field::Key(key), Field::Bytes(after)];
                fields.retain(|field| !matches!(field, Field::Bytes([])));
                let with = sp800_108(COUNTER, HMAC, &[], &fields);
                a.signed(HMAC, a.derived(with, a.import(known_base(Kept))?, mac_key())?, b"compared")
            }
            how => {
                let mut joined = key;
                for (with, bytes) in [(DATA_AND_BASE, before), (BASE_AND_DATA, after)] {
                    if !bytes.is_empty() {
                        let template = hidden(CKK_GENERIC_SECRET).able(self.usages());
                        joined = a.derived(data(with, bytes), joined, template)?;
                    }
                }
                match how {
                    "CKA_CHECK_VALUE" => Ok(a.attribute(joined, CKA_CHECK_VALUE)?),
                    "HMAC" => a.signed(HMAC, joined, b"compared"),
                    _ => a.signed(HMAC, a.derived(HASHED, joined, mac_key())?, b"compared"),
                }
            }
        }
    }

    /// Returns the byte for which the two results are equal.
    fn finds(self, results: impl Fn(u8) -> Tried<[Vec<u8>; 2]>) -> Tried<Option<u8>> {
        for guess in 0..=u8::MAX {
            let [one, two] = results(guess)?;
            if one == two {
                return Ok(Some(guess));
            }
        }
        Ok(None)
    }

    /// Finds the last byte of a key, of which `short` has all bytes but the last.
    fn finds_last(self, a: &Attacker<'_>, short: Handle, whole: Handle) -> Tried<Option<u8>> {
        let wanted = self.of(a, &[9], whole, &[])?;
        self.finds(|guess| Ok([wanted.clone(), self.of(a, &[9], short, &[guess])?]))
    }
}

/// Attacks that compare two results to find a byte.
fn comparisons(t: &Table, comparison: Comparison) {
    let how = comparison.0;
    let usages = comparison.usages();
    let owned = || victim(CKK_GENERIC_SECRET, Kept, usages);
    let made = move |length| hidden_of(CKK_GENERIC_SECRET, length, usages);
    let name = format!("EXTRACT_KEY_FROM_KEY at the bits 8 and 16, compared by {how}");
    t.row(H3, name, &[EXTRACT], owned()).holds(move |a, victim| {
        let [one, two] = [1, 2].map(|at| a.extracted(victim, at, made(32)));
        let (one, two) = (one?, two?);
        // The byte at 1 is the first one of a rotation, and the last one of the other.
        let found = comparison.finds(|guess| {
            Ok([comparison.of(a, &[guess], two, &[])?, comparison.of(a, &[], one, &[guess])?])
        })?;
        Ok(found == Some(VICTIM[1]))
    });
    for with in [numbered(EXTRACT, 0), data(XOR, &[0; 31]), ike1_extended(HMAC, None)] {
        let name = format!("{} without the last byte of the key, compared by {how}", named(with.kind));
        t.row(H3, name, &[with.kind], owned()).holds(move |a, victim| {
            let short = a.derived(&with, victim, made(31))?;
            Ok(comparison.finds_last(a, short, victim)? == Some(VICTIM[31]))
        });
    }
    let fields = [Field::Iteration, Field::Bytes(b"label")];
    for with in [
        Mechanism::new(HASHED),
        CKM_HKDF_DERIVE.mechanism(),
        ike2_prf_plus(HMAC, None, b"seed"),
        sp800_108(COUNTER, HMAC, &[], &fields),
    ] {
        let name = format!("{} of 31 and of 32 bytes, compared by {how}", named(with.kind));
        t.row(H3, name, &[with.kind], owned()).holds(move |a, victim| {
            let [short, whole] = [31, 32].map(|length| a.derived(&with, victim, made(length)));
            Ok(comparison.finds_last(a, short?, whole?)?.is_some())
        });
    }
}

/// Other attacks that find the last byte of a key. HMAC pads a key with zeros, and the PRF of TLS
/// 1.0 reads the halves of its key apart.
fn halves(t: &Table) {
    let name = "XOR_BASE_AND_DATA of 31 and of 32 bytes, compared by the padding of HMAC";
    let signing = || victim(CKK_GENERIC_SECRET, Kept, &[CKA_DERIVE, CKA_SIGN]);
    t.row(H3, name, &[XOR, HMAC], signing()).holds(|a, victim| {
        let code = |mask: &[u8]| {
            let template = hidden_of(CKK_GENERIC_SECRET, mask.len(), &[CKA_SIGN]);
            a.signed(HMAC, a.derived(data(XOR, mask), victim, template)?, b"")
        };
        let wanted = code(&[0; 31])?;
        for guess in 0..=u8::MAX {
            if code(&[&[0; 31][..], &[guess]].concat())? == wanted {
                return Ok(guess == VICTIM[31]);
            }
        }
        Ok(false)
    });
    for (what, with, usage) in
        [("TLS_PRF", CKM_TLS_PRF, CKA_DERIVE), ("TLS_PRF_GENERAL", TLS_PRF_GENERAL, CKA_SIGN)]
    {
        let name = format!("{what} of own bytes behind a key, of which a half has one unknown byte");
        t.row(H3, name, &[with, BASE_AND_DATA], signing()).holds(move |a, victim| {
            let tails = [[1; 30], [2; 30]];
            let outputs = tails.map(|tail| {
                let joined = hidden(CKK_GENERIC_SECRET).able(&[usage]);
                let joined = a.derived(data(BASE_AND_DATA, &tail), victim, joined)?;
                if usage == CKA_SIGN { a.signed(with, joined, b"seed") } else { a.tls_prf(joined) }
            });
            // The halves with MD5 are equal.
            let [one, two] = outputs;
            let wanted = xor(&one?[..BLOCK], &two?);
            for guess in 0..=u8::MAX {
                let [one, two] = tails.map(|tail| a.p_sha1(&[&[guess][..], &tail].concat(), b"seed"));
                if xor(&one?, &two?)[..BLOCK] == wanted {
                    return Ok(guess == VICTIM[31]);
                }
            }
            Ok(false)
        });
    }
}

impl Attacker<'_> {
    /// Returns 16 bytes of the PRF of TLS 1.0 without a label.
    fn tls_prf(&self, key: Handle) -> Tried<Vec<u8>> {
        let (out, length) = (Memory::of(&[0; BLOCK]), Memory::of(&BLOCK.to_ne_bytes()));
        let parameter = Structure::new().bytes(b"seed").bytes(&[]).pointer(&out).pointer(&length);
        self.derived(parameter.mechanism(CKM_TLS_PRF), key, head(CKO_SECRET_KEY, CKK_GENERIC_SECRET))?;
        Ok(out.bytes())
    }

    /// Computes the first block of P_SHA-1 (RFC 2246, 5).
    fn p_sha1(&self, key: &[u8], seed: &[u8]) -> Tried<Vec<u8>> {
        let key = self.import(secret(CKK_GENERIC_SECRET, key, Open, &[CKA_SIGN]))?;
        let first = self.signed(CKM_SHA_1_HMAC, key, seed)?;
        self.signed(CKM_SHA_1_HMAC, key, &[&first, seed].concat())
    }
}

/// Attacks in which a concatenation or a cut key loses its limits.
fn usages(t: &Table) {
    for with in [data(BASE_AND_DATA, &[9; 8]), ike1_extended(HMAC, None)] {
        let name = format!("C_SetAttributeValue gives a key of {} CKA_SIGN", named(with.kind));
        t.row(H3, name, &[with.kind, HMAC], base()).accepted(move |a, victim| {
            let length = if with.kind == EXTENDED { 16 } else { 40 };
            let made = hidden_of(CKK_GENERIC_SECRET, length, &[]).and([flag(CKA_SIGN, false)]);
            let made = a.derived(&with, victim, made)?;
            a.signed(HMAC, a.set(made, [flag(CKA_SIGN, true)])?, b"message")
        });
    }
    let name = "wrap and unwrap own bytes before a key, and cut all but one byte of the key";
    let protected = Template::default().guarded(Kept);
    let unwraps = wrapping(&[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, protected);
    let owned = secret(CKK_GENERIC_SECRET, &VICTIM, ForTrusted, &[CKA_DERIVE]);
    let owned = ((trusted_key(wrapping(&[CKA_WRAP])), unwraps), owned);
    t.row(H3, name, &[DATA_AND_BASE, KWP, EXTRACT], owned).holds(|a, ((wraps, unwraps), victim)| {
        let joined = head(CKO_SECRET_KEY, CKK_GENERIC_SECRET).guarded(ForTrusted).able(&[CKA_DERIVE]);
        let joined = a.derived(data(DATA_AND_BASE, &[9; 31]), victim, joined)?;
        let wrapped = a.wrapped(KWP, wraps, joined)?;
        let template = hidden(CKK_GENERIC_SECRET).able(&[CKA_DERIVE]);
        let made = a.extracted(a.unwrapped(KWP, unwraps, &wrapped, template)?, 0, mac_key())?;
        Ok(Oracle("HMAC").byte(a, made, |guess| [&[9; 31][..], &[guess]].concat())? == Some(VICTIM[0]))
    });
}

/// Describes a key of this length that derives, and perhaps makes derived keys sensitive.
fn deriving(length: usize, protects: bool) -> Template {
    let key = secret(CKK_GENERIC_SECRET, &VICTIM.repeat(2)[..length], Kept, &[CKA_DERIVE]);
    if protects { key.nested(CKA_DERIVE_TEMPLATE, Template::default().guarded(Kept)) } else { key }
}

/// Attacks that read the result of a function directly.
fn visible(t: &Table) {
    for protects in [true, false] {
        let against = if protects { "a key against its CKA_DERIVE_TEMPLATE" } else { "a sensitive key" };
        t.row(M2, format!("C_DigestKey of {against}"), &[CKM_SHA256], deriving(32, protects))
            .holds(|a, victim| Ok(a.digest_of_key(victim)? == a.digested(CKM_SHA256, &VICTIM)?));
        t.row(M2, format!("TLS_PRF of {against}"), &[CKM_TLS_PRF], deriving(48, protects))
            .holds(|a, victim| Ok(a.tls_prf(victim)? != [0; BLOCK]));
        t.row(M2, format!("HKDF_DATA of {against}"), &[CKM_HKDF_DATA], deriving(32, protects)).accepted(
            |a, victim| {
                let object = [number(CKA_CLASS, CKO_DATA), flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 32)];
                a.value(a.derived(
                    hkdf(CKM_HKDF_DATA, true, CKF_HKDF_SALT_NULL, Handle(0)),
                    victim,
                    object,
                )?)
            },
        );
        for kind in [CKM_TLS12_KEY_AND_MAC_DERIVE, CKM_TLS_KEY_AND_MAC_DERIVE] {
            let name = format!("the initialisation vectors of {} of {against}", named(kind));
            t.row(M2, name, &[kind], deriving(48, protects)).holds(move |a, victim| {
                let ivs = [(); 2].map(|()| Memory::of(&[0; BLOCK]));
                let out = Structure::new().number(0).number(0).number(0).number(0);
                let out = out.pointer(&ivs[0]).pointer(&ivs[1]);
                let parameter = Structure::new().number(256).number(128).number(128).flag(false);
                let parameter = parameter.members(Structure::new().bytes(&[1; 32]).bytes(&[2; 32]));
                let parameter = parameter.structure(out);
                let tls12 = kind == CKM_TLS12_KEY_AND_MAC_DERIVE;
                let parameter = if tls12 { parameter.number(CKM_SHA256) } else { parameter };
                a.derived(parameter.mechanism(kind), victim, hidden(CKK_AES).able(&[CKA_ENCRYPT]))?;
                Ok(ivs.iter().any(|iv| iv.bytes() != [0; BLOCK]))
            });
        }
    }
}

/// Attacks in which the key with the `CKA_DERIVE_TEMPLATE` is not the base key.
fn templates(t: &Table) {
    let fields = |kind, key| sp800_108(kind, HMAC, &[], &[Field::Iteration, Field::Key(key)]);
    /// Returns a derivation with this second key.
    type Second = Box<dyn Fn(Handle) -> Mechanism>;
    let rows: [(&str, CK_MECHANISM_TYPE, Second); 8] = [
        ("the salt", CKM_HKDF_DERIVE, Box::new(|key| hkdf(CKM_HKDF_DERIVE, true, CKF_HKDF_SALT_KEY, key))),
        ("a field", COUNTER, Box::new(move |key| fields(COUNTER, key))),
        ("a field", FEEDBACK, Box::new(move |key| fields(FEEDBACK, key))),
        ("a field", PIPELINE, Box::new(move |key| fields(PIPELINE, key))),
        ("the new key", CKM_IKE_PRF_DERIVE, Box::new(|key| ike_prf(HMAC, false, &[1], Some(key)))),
        ("g^xy", CKM_IKE1_PRF_DERIVE, Box::new(|key| ike1_prf(HMAC, key))),
        ("g^xy", EXTENDED, Box::new(|key| ike1_extended(HMAC, Some(key)))),
        ("the seed", CKM_IKE2_PRF_PLUS_DERIVE, Box::new(|key| ike2_prf_plus(HMAC, Some(key), &[]))),
    ];
    for (place, kind, second) in rows {
        let name = format!("a key with a CKA_DERIVE_TEMPLATE is {place} of {}", named(kind));
        // IKE does not lower the protection of its keys. The template protects more.
        let ike = !matches!(kind, CKM_HKDF_DERIVE | COUNTER | FEEDBACK | PIPELINE);
        let guarded = if ike { Wrappable } else { Open };
        let owned = deriving(32, true).guarded(if ike { Wrappable } else { Kept });
        t.row(M3, name, &[kind], owned).accepted(move |a, victim| {
            let own = a.import(known_base(Open)).setup()?;
            let made = open_of(CKK_GENERIC_SECRET, 32).guarded(guarded);
            a.revealed(a.derived(second(victim), own, made)?)
        });
    }
}
