//! Findings H1 and M5 of the second review (docs/findings.md). H1: a caller who chooses the nonce
//! or the input of a wrapping key reads keys that only trusted keys wrap. M5: a caller who changes
//! a wrapped private key compares the public keys.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Memory, Structure};

use super::keys::Guarded::{ForTrusted, Kept, Open, Wrappable};
use super::keys::{
    Handle, Handles, Template, VICTIM, aes, ca_key, ec, flag, head, known, number, open_of, secret, wrapping,
};
use super::oracles::flipped;
use super::tools::{ECB, GCM, KW, KWP, With, attribute_name, ctr, data, gcm, named, numbered};
use super::trust::trusted_key;
use super::{Attacker, Table, Tried};

const H1: &str = "Second review, H1";
const M5: &str = "Second review, M5";
const CCM: CK_MECHANISM_TYPE = CKM_AES_CCM;
const POLY1305: CK_MECHANISM_TYPE = CKM_CHACHA20_POLY1305;
const CBC: CK_MECHANISM_TYPE = CKM_AES_CBC;
const CBC_PAD: CK_MECHANISM_TYPE = CKM_AES_CBC_PAD;
const CTR: CK_MECHANISM_TYPE = CKM_AES_CTR;
const FUNCTIONS: [&str; 2] = ["C_WrapKey", "C_WrapKeyAuthenticated"];
const NONCE: usize = 12;
const ALL_BITS: CK_ULONG = 8 * NONCE as CK_ULONG;

pub fn attacks(t: &Table) {
    FUNCTIONS.into_iter().for_each(|function| nonces(t, function));
    key_streams(t);
    blocks(t);
    single_blocks(t);
    altered(t);
}

/// Returns what makes the SO's wrapping key for a mechanism. It has these usages alone.
fn by(
    with: CK_MECHANISM_TYPE,
    usages: &[CK_ATTRIBUTE_TYPE],
) -> impl Fn(&Attacker<'_>) -> Tried<Handle> + use<> {
    let kind = if matches!(with, POLY1305 | CKM_CHACHA20) { CKK_CHACHA20 } else { CKK_AES };
    trusted_key(wrapping(usages).and([number(CKA_KEY_TYPE, kind)]))
}

/// Returns the nonce that the attacker chooses.
fn zeros() -> Memory {
    Memory::of(&[0; NONCE])
}

#[derive(Clone, Copy)]
struct Source {
    generator: CK_GENERATOR_FUNCTION,
    fixed: CK_ULONG,
}

const CALLER: Source = Source { generator: CKG_NO_GENERATE, fixed: 0 };
const TOKEN: Source = Source { generator: CKG_GENERATE_RANDOM, fixed: 0 };

#[derive(Clone, Copy)]
struct Sealing {
    function: &'static str,
    with: CK_MECHANISM_TYPE,
}

impl Sealing {
    /// Wraps a key of this length. The token writes the nonce that it generates to `nonce`.
    fn wrap(
        self,
        a: &Attacker<'_>,
        (source, nonce): (Source, &Memory),
        by: Handle,
        (key, length): (Handle, usize),
    ) -> Tried<Vec<u8>> {
        let with = self.mechanism(source, nonce, length as CK_ULONG);
        if self.function == "C_WrapKey" {
            return a.wrapped(with, by, key);
        }
        let keys = vec![Arg::Mechanism(&with), Arg::Number(by.0), Arg::Number(key.0), Arg::Bytes(b"")];
        a.output(self.function, keys)
    }

    /// Returns the mechanism with the parameter of the function.
    fn mechanism(self, Source { generator, fixed }: Source, nonce: &Memory, length: CK_ULONG) -> Mechanism {
        let start = || if self.with == CCM { Structure::new().number(length) } else { Structure::new() };
        let tag_len = if self.with == CCM { 16 } else { 128 };
        let plain = || start().pointer(nonce).number(NONCE as CK_ULONG);
        let generated = || plain().number(fixed).number(generator);
        let tag = Memory::of(&[0; 16]);
        let parameter = match (self.function, self.with, generator) {
            ("C_WrapKeyAuthenticated", POLY1305, _) => plain().pointer(&tag),
            ("C_WrapKeyAuthenticated", ..) => generated().pointer(&tag).number(tag_len),
            (_, POLY1305, _) => plain().bytes(&[]),
            (_, GCM, CKG_NO_GENERATE) => return gcm(&nonce.bytes()),
            (_, _, CKG_NO_GENERATE) => plain().bytes(&[]).number(tag_len),
            _ => generated().bytes(&[]).number(tag_len),
        };
        parameter.mechanism(self.with)
    }
}

/// Returns the XOR, which is as long as the shorter one.
pub fn xor(one: &[u8], two: &[u8]) -> Vec<u8> {
    one.iter().zip(two).map(|(one, two)| one ^ two).collect()
}

impl Attacker<'_> {
    /// Creates a generic key of the attacker with this value and without usages.
    fn own(&self, value: &[u8]) -> Tried<Handle> {
        self.import(secret(CKK_GENERIC_SECRET, value, Open, &[]))
    }

    /// Returns the key inside `wrapped`. The attacker wraps keys of this length in the same way:
    /// the XOR of two wrapped keys is the XOR of the keys, up to the segment in which they differ.
    fn separated(
        &self,
        wrapped: &[u8],
        (length, segment): (usize, usize),
        wrap: impl Fn(Handle) -> Tried<Vec<u8>>,
    ) -> Tried<Vec<u8>> {
        let mut found = Vec::new();
        while found.len() < length.min(wrapped.len()) {
            let mut own = found.clone();
            own.resize(length, 0);
            let known = found.len() + segment;
            found = xor(&xor(wrapped, &wrap(self.own(&own)?)?), &own);
            found.truncate(known);
        }
        Ok(found)
    }
}

/// Attacks that wrap two keys with an authenticated cipher under the same nonce.
fn nonces(t: &Table, function: &'static str) {
    for with in [GCM, CCM, POLY1305] {
        let sealing = Sealing { function, with };
        for (what, victim, length) in
            [("an AES key", aes(ForTrusted), 32), ("a CA key", ca_key(ForTrusted), 256)]
        {
            // The parameter of C_WrapKey with CCM has the length of the key.
            if (function, with, length) == ("C_WrapKey", CCM, 256) {
                continue;
            }
            let name = format!("wrap an own key and {what} under one nonce of {}, {function}", named(with));
            t.row(H1, name, &[with], (by(with, &[CKA_WRAP]), victim)).holds(move |a, (by, victim)| {
                let wrap = |key| sealing.wrap(a, (CALLER, &zeros()), by, (key, length));
                let found = a.separated(&wrap(victim)?, (length, length), wrap)?;
                Ok(found.windows(VICTIM.len()).any(|part| part == VICTIM))
            });
        }
    }
    for with in [GCM, CCM] {
        let (sealing, cipher) = (Sealing { function, with }, named(with));
        let prepared = || (by(with, &[CKA_WRAP]), aes(ForTrusted));
        let name = format!("fix all bits of the nonce of {cipher} that the token generates, {function}");
        t.row(H1, name, &[with], prepared()).reads(move |a, (by, victim)| {
            let source = Source { generator: CKG_GENERATE, fixed: ALL_BITS };
            let wrap = |key| sealing.wrap(a, (source, &zeros()), by, (key, 32));
            a.separated(&wrap(victim)?, (32, 32), wrap)
        });
        let name = format!("use the nonce of {cipher} that the token made for another key, {function}");
        t.row(H1, name, &[with], prepared()).reads(move |a, (by, victim)| {
            let nonce = zeros();
            let wrapped = sealing.wrap(a, (TOKEN, &nonce), by, (victim, 32))?;
            a.separated(&wrapped, (32, 32), |own| sealing.wrap(a, (CALLER, &nonce), by, (own, 32)))
        });
    }
}

/// Returns a cipher whose key stream begins with the encryption of this block, if it has such a
/// stream. Otherwise the initialisation vector is zero.
fn streaming(with: CK_MECHANISM_TYPE, block: &[u8]) -> Mechanism {
    match with {
        CTR => ctr(128, block),
        CKM_CHACHA20 => {
            let (counter, nonce) = block.split_at(4);
            let made = Structure::new().pointer(&Memory::of(counter)).number(32);
            made.pointer(&Memory::of(nonce)).number(96).mechanism(with)
        }
        ECB | CBC | CBC_PAD => with.mechanism(),
        _ => Mechanism::with_bytes(with, block),
    }
}

/// Attacks that wrap with a key stream under one initialisation vector. CFB changes its stream with
/// each segment.
fn key_streams(t: &Table) {
    for (with, segment) in [
        (CTR, 32),
        (CKM_AES_OFB, 32),
        (CKM_CHACHA20, 32),
        (CKM_AES_CFB128, 16),
        (CKM_AES_CFB64, 8),
        (CKM_AES_CFB8, 1),
    ] {
        let name = format!("wrap own keys and an AES key under one initialisation vector of {}", named(with));
        let prepared = (by(with, &[CKA_WRAP]), aes(ForTrusted));
        t.row(H1, name, &[with], prepared).reads(move |a, (by, victim)| {
            let wrap = |key| a.wrapped(streaming(with, &[7; 16]), by, key);
            a.separated(&wrap(victim)?, (32, segment), wrap)
        });
    }
}

/// A call that shows the encryption of a block.
#[derive(Clone, Copy)]
struct Encryption {
    function: &'static str,
    with: CK_MECHANISM_TYPE,
}

impl Encryption {
    /// Returns the encryption of a block with AES.
    fn of(self, a: &Attacker<'_>, key: Handle, block: &[u8]) -> Tried<Vec<u8>> {
        let with = streaming(self.with, block);
        let input = if matches!(self.with, ECB | CBC | CBC_PAD) { block } else { &[0; 16] };
        let mut out = match self.function {
            "C_WrapKey" => a.wrapped(with, key, a.own(input)?)?,
            "C_Encrypt" => a.encrypted(with, key, input)?,
            "C_Decrypt" => a.decrypted(with, key, input)?,
            "C_Sign" => a.signed(numbered(self.with, 16), key, block)?,
            _ => a.value(a.derived(data(self.with, block), key, open_of(CKK_GENERIC_SECRET, 16))?)?,
        };
        out.truncate(16);
        Ok(out)
    }
}

/// Returns the first two blocks of which a cipher makes its key stream (SP 800-38D, 7.1; SP
/// 800-38C, A.3).
fn counters(with: CK_MECHANISM_TYPE, nonce: &[u8]) -> [Vec<u8>; 2] {
    [1, 2].map(|count| match with {
        GCM => [nonce, &[0, 0, 0, count + 1]].concat(),
        _ => [&[2], nonce, &[0, 0, count]].concat(),
    })
}

impl Attacker<'_> {
    /// Wraps a key under a nonce of the token, and computes the key stream of the nonce.
    fn unsealed(
        &self,
        with: CK_MECHANISM_TYPE,
        (by, victim): Handles,
        encrypt: impl Fn(&[u8]) -> Tried<Vec<u8>>,
    ) -> Tried<Vec<u8>> {
        let (nonce, sealing) = (zeros(), Sealing { function: "C_WrapKeyAuthenticated", with });
        let wrapped = sealing.wrap(self, (TOKEN, &nonce), by, (victim, 32))?;
        let [first, second] = counters(with, &nonce.bytes());
        Ok(xor(&wrapped[..32], &[encrypt(&first)?, encrypt(&second)?].concat()))
    }
}

/// Attacks that encrypt the blocks of a key stream with the wrapping key.
fn blocks(t: &Table) {
    for with in [GCM, CCM] {
        for mode in [ECB, CBC, CBC_PAD, CTR, CKM_AES_OFB, CKM_AES_CFB128] {
            let how = Encryption { function: "C_WrapKey", with: mode };
            let name = format!("wrap the counter of {} as an own key with {}", named(with), named(mode));
            t.row(H1, name, &[with, mode], (by(with, &[CKA_WRAP]), aes(ForTrusted)))
                .reads(move |a, keys| a.unsealed(with, keys, |block| how.of(a, keys.0, block)));
        }
    }
    for (usage, function, mode) in [
        (CKA_ENCRYPT, "C_Encrypt", ECB),
        (CKA_ENCRYPT, "C_Encrypt", CTR),
        (CKA_DECRYPT, "C_Decrypt", CTR),
        (CKA_SIGN, "C_Sign", CKM_AES_MAC_GENERAL),
        (CKA_DERIVE, "C_DeriveKey", CKM_AES_ECB_ENCRYPT_DATA),
    ] {
        let (how, other) = (Encryption { function, with: mode }, attribute_name(usage));
        let name = format!(
            "{function} of the counter of AES_GCM with a trusted key that has {other}, {}",
            named(mode)
        );
        t.row(H1, name, &[GCM, mode], (by(GCM, &[CKA_WRAP, usage]), aes(ForTrusted)))
            .reads(move |a, keys| a.unsealed(GCM, keys, |block| how.of(a, keys.0, block)));
        let name =
            format!("{function} with a copy of a trusted key that gets {other} later, {}", named(mode));
        t.row(H1, name, &[GCM, mode], (by(GCM, &[CKA_WRAP]), aes(ForTrusted))).reads(move |a, keys| {
            let copy = a.copy(keys.0, [flag(CKA_TOKEN, false)])?;
            a.set(copy, [flag(usage, true)])?;
            a.unsealed(GCM, keys, |block| how.of(a, copy, block))
        });
    }
    let name = "C_Encrypt under the nonce of a key that AES_GCM wrapped";
    t.row(H1, name, &[GCM], (by(GCM, &[CKA_WRAP, CKA_ENCRYPT]), aes(ForTrusted))).reads(|a, (by, victim)| {
        let (nonce, sealing) = (zeros(), Sealing { function: "C_WrapKeyAuthenticated", with: GCM });
        let wrapped = sealing.wrap(a, (TOKEN, &nonce), by, (victim, 32))?;
        Ok(xor(&wrapped[..32], &a.encrypted(gcm(&nonce.bytes()), by, &[0; 32])?))
    });
    let name = "C_UnwrapKey with a copy of a trusted key that gets CKA_UNWRAP later";
    t.row(H1, name, &[KW], (by(KW, &[CKA_WRAP]), aes(ForTrusted))).reads(|a, (by, victim)| {
        let copy = a.copy(by, [flag(CKA_TOKEN, false)])?;
        a.set(copy, [flag(CKA_UNWRAP, true)])?;
        a.opened(KW, copy, &a.wrapped(KW, by, victim)?)
    });
}

/// Attacks with KWP of a key of 8 bytes. RFC 5649, 4.1: it is the encryption of one block, of which
/// the key is the second half.
fn single_blocks(t: &Table) {
    const START: [u8; 8] = [0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 8];
    let prepared = || (by(GCM, &[CKA_WRAP]), aes(ForTrusted));
    let name = "fix 64 bits of the nonce of AES_GCM and wrap its counter as an own key of 8 bytes with KWP";
    t.row(H1, name, &[GCM, KWP], prepared()).reads(|a, (by, victim)| {
        let (nonce, source) =
            (Memory::of(&[&START[..], &[0; 4]].concat()), Source { generator: CKG_GENERATE, fixed: 64 });
        let sealing = Sealing { function: "C_WrapKeyAuthenticated", with: GCM };
        let wrapped = sealing.wrap(a, (source, &nonce), by, (victim, 32))?;
        let blocks = counters(GCM, &nonce.bytes()).map(|block| a.wrapped(KWP, by, a.own(&block[8..])?));
        let [first, second] = blocks;
        Ok(xor(&wrapped[..32], &[first?, second?].concat()))
    });
    let name = "wrap an own key of 8 bytes with KWP under a key that wraps with AES_GCM";
    t.row(H1, name, &[GCM, KWP], prepared()).accepted(|a, (by, victim)| {
        let sealing = Sealing { function: "C_WrapKeyAuthenticated", with: GCM };
        sealing.wrap(a, (TOKEN, &zeros()), by, (victim, 32))?;
        a.wrapped(KWP, by, a.own(&[9; 8])?)
    });
}

/// Attacks on private keys that are unwrapped with a key whose `CKA_UNWRAP_TEMPLATE` makes them
/// sensitive and not extractable.
fn altered(t: &Table) {
    let unwraps = || {
        let protected = Template::default().guarded(Kept);
        wrapping(&[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, protected)
    };
    let private = || head(CKO_PRIVATE_KEY, CKK_EC).able(&[CKA_SIGN]);
    let prepared = || ((wrapping(&[CKA_WRAP]), unwraps()), ec(&[CKA_SIGN], Wrappable));
    for with in [CTR, CKM_AES_OFB, CKM_AES_CFB128, CKM_AES_CFB8, CBC_PAD] {
        let name = format!("change a bit of a private key that {} wrapped", named(with));
        // The signature shows the public key of the changed key, and this shows the bit (Q and
        // Q + 2^i G).
        t.row(M5, name, &[with], prepared()).holds(move |a, ((wraps, unwraps), (public, victim))| {
            let with = streaming(with, &[7; 16]);
            let wrapped = a.wrapped(&with, wraps, victim)?;
            let changed = |at| a.unwrapped(&with, unwraps, &flipped(&wrapped, at, 1), private());
            let other = |key| a.forges(CKM_ECDSA, (public, key), &[7; 32]).is_ok_and(|same| !same);
            Ok((0..wrapped.len()).any(|at| changed(at).is_ok_and(other)))
        });
    }
    let name = "unwrap a private key with a tag of 32 bits of AES_GCM";
    t.row(M5, name, &[GCM], prepared()).accepted(move |a, ((wraps, unwraps), (_, victim))| {
        let short = Structure::new().bytes(&[0; NONCE]).number(ALL_BITS).bytes(&[]).number(32).mechanism(GCM);
        a.unwrapped(&short, unwraps, &a.wrapped(&short, wraps, victim)?, private())
    });
    for with in [CBC_PAD, GCM] {
        let name = format!("unwrap a private key beside the public key of another one, {}", named(with));
        let owned = ((known(&[CKA_ENCRYPT]), known(&[CKA_UNWRAP])), ec(&[CKA_SIGN], Open));
        t.row(M5, name, &[with], owned).accepted(move |a, ((encrypts, unwraps), (other, _))| {
            let encoded = [&PKCS8[..], &VICTIM, &PUBLIC, &a.point(other)?].concat();
            a.unwrapped(with, unwraps, &a.encrypted(with, encrypts, &encoded)?, private())
        });
    }
}

/// The PKCS #8 of a P-256 key with its public key (RFC 5915), up to the private value.
const PKCS8: [u8; 36] = [
    0x30, 0x81, 0x87, 2, 1, 0, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 3, 1, 7, 4, 0x6d, 0x30, 0x6b, 2, 1, 1, 4, 0x20,
];
/// What is between the private value and the point.
const PUBLIC: [u8; 5] = [0xa1, 0x44, 3, 0x42, 0];
