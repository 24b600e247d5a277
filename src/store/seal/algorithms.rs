//! The two formats of a token file: the KDF of the PINs, the cipher of the records, and the keyed
//! hash of the rows. Everything else is the same in both.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use allocator_api2::vec::Vec as MappedVec;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use jeton_secret::{CIPHER_DEPTH, Mapped, Secret, wipe_stack};
use tracing::error;

use super::random;
use super::sealing_key::SealingKey;
use crate::backend::{AeadScheme, Hash, MacScheme, Provider};
use crate::config::{Format, PinRules};
use crate::error::{Error, Result};
use crate::gate::{Gate, Permit};

pub(super) const AEAD_KEY: usize = 32;
pub(super) const TAG: usize = 16;

/// The library that computes [`Format::Fips`].
const LIBRARY: &Provider = Provider::ALL[0];

impl Format {
    /// Returns the format with this number.
    pub(super) fn numbered(number: u8) -> Option<Self> {
        [Self::Standard, Self::Fips].into_iter().find(|format| *format as u8 == number)
    }

    pub(super) const fn nonce_len(self) -> usize {
        match self {
            Self::Standard => 24,
            Self::Fips => 12,
        }
    }

    /// Encrypts `hidden`. Returns the nonce, the ciphertext and the tag. The tag also authenticates
    /// `aad`.
    pub(super) fn seal(self, key: &[u8], aad: &[u8], hidden: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Standard => {
                let nonce: [u8; Self::Standard.nonce_len()] = random()?;
                let sealed = cipher(key)
                    .ok_or(Error::GeneralError)?
                    .encrypt(&XNonce::from(nonce), Payload { msg: hidden, aad })
                    .map_err(|_| Error::GeneralError);
                wipe_stack::<CIPHER_DEPTH>();
                Ok([&nonce[..], &sealed?].concat())
            }
            Self::Fips => LIBRARY.ciphers.seal_gcm(key, aad, hidden),
        }
    }

    /// Decrypts the result of [`seal`](Self::seal); `None` if it or `aad` was altered.
    pub(super) fn open(self, key: &[u8], aad: &[u8], sealed: &[u8]) -> Option<Secret> {
        let (nonce, body) = sealed.split_at_checked(self.nonce_len())?;
        match self {
            Self::Standard => {
                let nonce = XNonce::try_from(nonce).ok()?;
                // The cipher leaves blocks of the plaintext on the stack.
                let opened = cipher(key)?.decrypt(&nonce, Payload { msg: body, aad });
                wipe_stack::<CIPHER_DEPTH>();
                opened.ok().map(Secret::new)
            }
            Self::Fips => {
                let (body, tag) = body.split_at_checked(body.len().checked_sub(TAG)?)?;
                let mut opened = Secret::zeroed(body.len());
                let mut aead = LIBRARY.ciphers.aead(AeadScheme::AesGcm, key).ok()?;
                aead.open(nonce, aad, body, tag, &mut opened).ok()?;
                Some(opened)
            }
        }
    }
}

fn cipher(key: &[u8]) -> Option<XChaCha20Poly1305> {
    XChaCha20Poly1305::new_from_slice(key).ok()
}

/// Returns the first 16 bytes of HMAC with SHA-256.
pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mac = LIBRARY.mac(&MacScheme::Hmac(Hash::Sha256), key, parts);
    let mac = mac.ok().and_then(|mac| mac.first_chunk().copied());
    mac.expect("HMAC fails only where an allocation fails")
}

/// The cost of trying a PIN: the KDF of a PIN record, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinCost {
    /// Argon2id.
    Argon2id {
        /// The memory in KiB.
        memory_kib: u32,
        /// The number of passes.
        passes: u32,
    },
    /// PBKDF2 with HMAC and SHA-256.
    Pbkdf2 {
        /// The number of iterations.
        iterations: u32,
    },
}

impl PinCost {
    /// The valid range of the iterations of PBKDF2. OWASP recommends the lower limit.
    const ITERATIONS: RangeInclusive<u32> = 600_000..=100_000_000;
    /// The time of PBKDF2 for a new PIN on this machine, unless the least iterations take longer.
    const TIME: Duration = Duration::from_millis(100);

    /// Returns the cost of a new PIN.
    pub(super) fn of_new(format: Format, rules: &PinRules) -> Result<Self> {
        if format == Format::Standard {
            return Ok(Self::Argon2id { memory_kib: rules.memory_kib, passes: rules.passes });
        }
        let (sample, began) = (*Self::ITERATIONS.start() / 10, Instant::now());
        LIBRARY.macs.pbkdf2(Hash::Sha256, &[0; 16], &[0; 16], sample, &mut [0; AEAD_KEY])?;
        let fitting = Self::TIME.as_nanos() * u128::from(sample) / began.elapsed().as_nanos().max(1);
        let most = *Self::ITERATIONS.end();
        let iterations = u32::try_from(fitting).unwrap_or(most).clamp(*Self::ITERATIONS.start(), most);
        Ok(Self::Pbkdf2 { iterations })
    }

    /// Decodes the two numbers of a PIN record; `None` if one of them is out of range. PBKDF2 needs
    /// no memory.
    pub(super) fn decode(memory_kib: u32, passes: u32) -> Option<Self> {
        if memory_kib == 0 {
            return Self::ITERATIONS.contains(&passes).then_some(Self::Pbkdf2 { iterations: passes });
        }
        let fits = PinRules::MEMORY_KIB.contains(&memory_kib) && PinRules::PASSES.contains(&passes);
        fits.then_some(Self::Argon2id { memory_kib, passes })
    }

    /// Returns the numbers that [`decode`](Self::decode) takes.
    pub(super) fn encode(self) -> (u32, u32) {
        match self {
            Self::Argon2id { memory_kib, passes } => (memory_kib, passes),
            Self::Pbkdf2 { iterations } => (0, iterations),
        }
    }

    /// Returns the format of a token whose PINs have this cost.
    pub(super) fn format(self) -> Format {
        match self {
            Self::Argon2id { .. } => Format::Standard,
            Self::Pbkdf2 { .. } => Format::Fips,
        }
    }
}

/// The runs of the KDFs in this process.
static GATE: Gate = Gate::new();

/// A run of a KDF, with the memory of Argon2id. `start` waits at the gate until there is room, and
/// touches all pages. So if memory is short, `start` fails or the system kills the process, before
/// a failure is counted. The memory is wiped when it is dropped, and goes back to the system.
pub(super) struct KdfRun {
    kdf: Kdf,
    // Dropped after the memory is freed.
    _permit: Permit,
}

enum Kdf {
    Argon2id(Params, MappedVec<Block, Mapped>),
    Pbkdf2(u32),
}

impl KdfRun {
    pub(super) fn start(cost: PinCost) -> Result<Self> {
        let (memory_kib, passes) = match cost {
            PinCost::Argon2id { memory_kib, passes } => (memory_kib, passes),
            PinCost::Pbkdf2 { iterations } => {
                return Ok(Self { kdf: Kdf::Pbkdf2(iterations), _permit: GATE.enter(0) });
            }
        };
        let params = Params::new(memory_kib, passes, 1, Some(AEAD_KEY)).map_err(log_failure)?;
        let count = params.block_count();
        let permit = GATE.enter(params.m_cost());
        let mut blocks = MappedVec::new_in(Mapped);
        blocks.try_reserve_exact(count).map_err(|_| {
            error!("Argon2id needs {count} KiB of memory");
            Error::HostMemory
        })?;
        blocks.resize(count, Block::default());
        Ok(Self { kdf: Kdf::Argon2id(params, blocks), _permit: permit })
    }

    /// Derives the key that wraps the token key. Argon2id takes a sealing key as its secret
    /// parameter. PBKDF2 has none: its password is then the HMAC of the PIN under the sealing key.
    /// HMAC pads a short key with zeros, so the salt of PBKDF2 includes the length of the PIN.
    pub(super) fn derive(self, pin: &[u8], sealing: Option<&SealingKey>, salt: &[u8]) -> Result<Secret> {
        let mut key = Secret::zeroed(AEAD_KEY);
        let secret = sealing.map(SealingKey::bytes);
        match self.kdf {
            Kdf::Argon2id(params, mut blocks) => {
                Argon2::new_with_secret(
                    secret.unwrap_or_default(),
                    Algorithm::Argon2id,
                    Version::V0x13,
                    params,
                )
                .and_then(|argon2| {
                    argon2.hash_password_into_with_memory(pin, salt, &mut key, &mut blocks[..])
                })
                .map_err(log_failure)?;
            }
            Kdf::Pbkdf2(iterations) => {
                let password = match secret {
                    Some(secret) => LIBRARY.mac(&MacScheme::Hmac(Hash::Sha256), secret, &[pin])?,
                    None => Secret::from(pin),
                };
                let salt = [salt, &(pin.len() as u64).to_le_bytes()].concat();
                LIBRARY.macs.pbkdf2(Hash::Sha256, &password, &salt, iterations, &mut key)?;
            }
        }
        Ok(key)
    }
}

fn log_failure(reason: argon2::Error) -> Error {
    error!("Argon2id: {reason}");
    Error::DeviceError
}

#[cfg(all(test, feature = "fips"))]
mod fips {
    use super::*;
    use crate::backend::aws_lc::service_indicator;

    #[test]
    fn the_module_counts_each_service_of_the_format_as_approved() {
        let is_counted = |work: &dyn Fn()| {
            let before = service_indicator();
            work();
            service_indicator() > before
        };
        let key = [7; AEAD_KEY];
        assert!(is_counted(&|| drop(Format::Fips.seal(&key, b"open", b"hidden").expect("sealed"))));
        assert!(is_counted(&|| assert_ne!(hmac(&key[..16], &[b"message"]), [0; 16])));
        for (pin, is_approved) in [(&b"fourteen bytes"[..], true), (b"too short", false)] {
            let derive = || {
                let run = KdfRun::start(PinCost::Pbkdf2 { iterations: 600_000 }).expect("a run");
                drop(run.derive(pin, None, &[7; 16]).expect("a key"));
            };
            assert_eq!(is_counted(&derive), is_approved);
        }
    }
}
