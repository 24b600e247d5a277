//! Key generation and random bytes (PKCS#11 3.2, "Key management functions", "Random number
//! generation functions").
//!
//! No lock is held while a key is generated.

use std::fs::File;
use std::io::Write;

use jeton_secret::{Secret, with_wiped_frame};
use jeton_words::asynchronous::{AsyncFunction, Started};
use tracing::warn;

use super::asynchronous::Made;
use super::audit::Call;
use super::cost::Cost;
use super::{Module, Threads, password};
use crate::backend::{PairSpec, Provider, extra_bits};
use crate::config::fips;
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, ObjectClass, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Mechanism, MechanismRow, Params, row_of};
use crate::object::access::Rights;
use crate::object::required::{SIZES, refused, refused_in};
use crate::object::template::Template;
use crate::object::value::native;
use crate::object::{Attributes, attribute, domain_parameters, key, make};
use crate::token::Token;

/// Data that is written here is mixed into the generator of the operating system. The system does
/// not count it as entropy.
const RANDOM_DEVICE: &str = "/dev/urandom";
/// Maximum length of a secret key in bytes.
const MAX_SECRET: usize = 4096;

impl Module {
    /// `C_GenerateKey`
    pub fn generate_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        template: &Template<'_>,
    ) -> Result<Started<ObjectHandle>> {
        self.record_call(session, Call::of("C_GenerateKey", Some(mechanism), &[]), |token, rights| {
            token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
            if token.settings.enforces_fips() {
                fips::check_parameter(mechanism)?;
            }
            token.settings.check_parameter(mechanism)?;
            let template = &token.named_usages(template, ObjectClass::SECRET_KEY, None);
            let attributes = match row_of(mechanism.info).action {
                Action::GenerateParameters => {
                    return self.generate_parameters(session, mechanism, template).map(Started::Done);
                }
                Action::GenerateFromPassword => password::generate(&token, rights, mechanism, template)?,
                Action::GeneratePreMaster => pre_master(&token, rights, mechanism, template)?,
                _ => {
                    let key_type = makes(&token, mechanism, &[Action::Generate])?;
                    let value = |len| secret(token.provider(), row_of(mechanism.info), len);
                    make::generate_secret(template, key_type, mechanism.info.id, rights, value)?
                }
            };
            if self.is_asynchronous(session)? {
                rights.write(&attributes)?;
                let size = attributes.footprint();
                let made = move || Ok(Made::One(attributes));
                return self.jobs.start(session, token, AsyncFunction::GenerateKey, size, made);
            }
            token.insert(rights, session, attributes).map(Started::Done)
        })
    }

    /// Generates domain parameters (PKCS#11 3.2, "C_GenerateKey").
    fn generate_parameters(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        let key_type = makes(&token, mechanism, &[Action::GenerateParameters])?;
        let attributes = make::generate(template, ObjectClass::DOMAIN_PARAMETERS, key_type, rights)?;
        rights.write(&attributes)?;
        let bits = attributes.number(A::PRIME_BITS).ok_or(Error::TemplateIncomplete)?;
        in_range(row_of(mechanism.info), bits)
            .map_err(|error| refused_in(&attributes, A::PRIME_BITS, SIZES, error))?;
        let _permit = Cost::Minutes.admit(&token)?.wait();
        let made = domain_parameters::generate(attributes, key_type, bits as usize, token.provider())?;
        token.insert(rights, session, made)
    }

    /// `C_GenerateKeyPair`. Returns the public key and the private key.
    pub fn generate_key_pair(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        public: &Template<'_>,
        private: &Template<'_>,
    ) -> Result<Started<(ObjectHandle, ObjectHandle)>> {
        self.record_call(session, Call::of("C_GenerateKeyPair", Some(mechanism), &[]), |token, rights| {
            let action = row_of(mechanism.info).action;
            let key_type =
                makes(&token, mechanism, &[Action::GeneratePair, Action::GeneratePairFromExtraBits])?;
            let public = token.named_usages(public, ObjectClass::PUBLIC_KEY, None);
            let private = token.named_usages(private, ObjectClass::PRIVATE_KEY, None);
            let public = make::generate(&public, ObjectClass::PUBLIC_KEY, key_type, rights)?;
            let private = make::generate(&private, ObjectClass::PRIVATE_KEY, key_type, rights)?;
            token.check_pair(&public, &private)?;
            for half in [&public, &private] {
                rights.write(half)?;
            }
            let spec = key::pair_spec(&public, &private)?;
            if let PairSpec::Rsa { bits, .. } = spec {
                let refused = |error| refused_in(&public, A::MODULUS_BITS, SIZES, error);
                in_range(row_of(mechanism.info), bits as u64).map_err(refused)?;
                token.settings.check_rsa_bits(bits as u64).map_err(refused)?;
            }
            // A new RSA key has no modulus yet. One in the template is refused below.
            if !public.has(A::MODULUS) {
                token.check_key_size(&public)?;
            }
            let admission = Cost::of_pair(&spec).admit(&token)?;
            let size = public.footprint() + private.footprint();
            let (provider, id, threads) = (token.provider(), mechanism.info.id, self.threads());
            let work = move || {
                let _permit = admission.wait();
                with_wiped_frame(|| {
                    let mut spec = key::pair_spec(&public, &private)?;
                    if let (PairSpec::Hss { threads, .. }, Threads::Allowed) = (&mut spec, threads) {
                        *threads = std::thread::available_parallelism().map_or(1, Into::into);
                    }
                    let parts = match action {
                        Action::GeneratePairFromExtraBits => extra_bits::generate(&spec, provider),
                        _ => provider.keys.generate(&spec),
                    };
                    let parts = parts.map_err(|error| match (&spec, error) {
                        // PKCS#11 3.2, "PKCS #1 RSA key pair generation": an exponent that cannot
                        // be used.
                        (PairSpec::Rsa { .. }, Error::DataInvalid) => {
                            let clause = "PKCS #1 RSA key pair generation";
                            refused_in(&public, A::PUBLIC_EXPONENT, clause, Error::TemplateInconsistent)
                        }
                        (_, error) => key::refused(error),
                    })?;
                    make::put_pair(public, private, parts, id)
                })
            };
            if self.is_asynchronous(session)? {
                let work = move || work().map(|(public, private)| Made::Pair(public, private));
                return self.jobs.start(session, token, AsyncFunction::GenerateKeyPair, size, work);
            }
            let (public, private) = work()?;
            let [public, private] = token.insert_all(rights, session, [public, private])?;
            Ok(Started::Done((public, private)))
        })
    }

    /// `C_GenerateRandom`
    pub fn random(&self, session: SessionHandle, out: &mut [u8]) -> Result<()> {
        let (token, _) = self.access(session)?;
        token.provider().random.fill(out)
    }

    /// `C_SeedRandom`. Writes the seed into the generator of the operating system. The backends get
    /// their randomness from it and accept no seed themselves (`RAND_add` of AWS-LC does nothing).
    pub fn seed_random(&self, session: SessionHandle, seed: &[u8]) -> Result<()> {
        self.access(session)?;
        let device = File::options().write(true).open(RANDOM_DEVICE);
        device.and_then(|mut device| device.write_all(seed)).map_err(|reason| {
            warn!("{RANDOM_DEVICE}: {reason}");
            Error::RandomSeedNotSupported
        })
    }

    fn is_asynchronous(&self, session: SessionHandle) -> Result<bool> {
        self.sessions.with(session, |session| Ok(session.asynchronous))
    }
}

/// Returns the type of the keys that a mechanism generates. Fails with `MechanismInvalid` if the
/// mechanism is not offered or does not perform one of these actions.
fn makes(token: &Token, mechanism: &Mechanism, actions: &[Action]) -> Result<KeyType> {
    token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
    match row_of(mechanism.info).key_type {
        Some(key_type) if actions.contains(&row_of(mechanism.info).action) => Ok(key_type),
        _ => Err(Error::MechanismInvalid),
    }
}

/// Generates a random secret key of `len` bytes.
fn secret(provider: &Provider, mechanism: &MechanismRow, len: u64) -> Result<Secret> {
    let key_type = mechanism.key_type.ok_or(Error::MechanismInvalid)?;
    if key_type == KeyType::HOTP {
        in_range(mechanism, len)?;
    }
    let len = usize::try_from(len).ok();
    let len = len.filter(|len| *len <= MAX_SECRET && attribute::len_fits(key_type, *len));
    let size = Some(size_of::<std::ffi::c_ulong>());
    let len = len.ok_or_else(|| refused(A::VALUE_LEN, size, SIZES, Error::KeySizeRange))?;
    let mut secret = provider.random.secret(len)?;
    key::form_secret(key_type, &mut secret);
    Ok(secret)
}

/// Generates a pre-master secret (PKCS#11 3.2, "SSL", "Pre-master key generation"). It has 48
/// bytes, of which the first two are the version of the client.
fn pre_master(
    token: &Token,
    rights: Rights,
    mechanism: &Mechanism,
    template: &Template<'_>,
) -> Result<Attributes> {
    let Params::Version(version) = mechanism.params else { return Err(Error::MechanismParamInvalid) };
    let len = native(48);
    // A pre-master secret has no other use than derivation.
    let template = template.clone().or(A::VALUE_LEN, &len).or(A::DERIVE, &[1]);
    let value = |len| {
        require(len == 48, Error::TemplateInconsistent)?;
        let mut key = token.provider().random.secret(48)?;
        key[..2].copy_from_slice(&version);
        Ok(key)
    };
    make::generate_secret(&template, KeyType::GENERIC_SECRET, mechanism.info.id, rights, value)
}

fn in_range(mechanism: &MechanismRow, size: u64) -> Result<()> {
    let fits = (mechanism.sizes.0..=mechanism.sizes.1).contains(&size);
    if fits { Ok(()) } else { Err(Error::KeySizeRange) }
}
