//! TLS 1.0 to 1.2: the master secret, the keys of a connection, and keys for other protocols
//! (PKCS#11 3.2, "SSL", "TLS 1.2 Mechanisms").

use jeton_secret::Secret;
use jeton_words::derive::{Connection, Derived};

use super::guard::{is_copied, is_unreadable};
use super::{Work, check_received};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, MechanismType as M};
use crate::mechanism::tls::TlsPrf;
use crate::mechanism::{KeyExchange, Params};
use crate::object::make::{self, Cut};
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, flags::Flag};
use crate::session::tls::prf;

/// Length in bytes of a master secret, and of a pre-master secret with a version.
const MASTER: usize = 48;

impl Work<'_> {
    /// Derives a master secret ("Master key derivation", "Master key derivation for
    /// Diffie-Hellman").
    pub(super) fn tls_master(&self, exchange: KeyExchange, template: &Template<'_>) -> Result<Derived> {
        let secret = self.value()?;
        let versioned = exchange == KeyExchange::Rsa;
        require(!versioned || secret.len() == MASTER, Error::KeySizeRange)?;
        // The caller gets the first two bytes of the secret, which are its version.
        let generated = [M::SSL3_PRE_MASTER_KEY_GEN, M::TLS_PRE_MASTER_KEY_GEN].map(|id| Some(id.0));
        let is_pre_master = generated.contains(&self.base.attributes().number(A::KEY_GEN_MECHANISM));
        let hides = self.token.settings.is_strict() && is_unreadable(self.base) && !is_pre_master;
        require(!(versioned && (hides || is_copied(self.base))), Error::KeyTypeInconsistent)?;
        let (function, value) = match &self.mechanism.params {
            Params::TlsMaster { prf, randoms } => {
                let seed: &[&[u8]] = &[&randoms.client, &randoms.server];
                (*prf, self.tls(*prf, b"master secret", seed, MASTER)?)
            }
            Params::TlsExtendedMaster { prf, session_hash } => {
                (*prf, self.tls(*prf, b"extended master secret", &[session_hash], MASTER)?)
            }
            _ => return Err(Error::MechanismParamInvalid),
        };
        // `CKA_DERIVE` is true by default, because the keys of a connection are derived from the
        // master secret. Under *strict* a template must name each usage.
        let guard = self.guard(template)?;
        let mut flags = guard.flags();
        if !self.token.settings.is_strict() {
            flags.push((A::DERIVE, true));
        }
        let full = guard.add_flags(template, &flags);
        let mut attributes = self.receive(&full, &guard, KeyType::GENERIC_SECRET)?;
        guard.bind(&mut attributes)?;
        guard.mark(&mut attributes, template, MASTER, MASTER)?;
        if attributes.number(A::KEY_TYPE) != Some(KeyType::GENERIC_SECRET.0) {
            return Err(Error::TemplateInconsistent);
        }
        let attributes = match function {
            TlsPrf::Md5Sha1 => attributes,
            TlsPrf::Hash(_) => restrict_to_tls12(attributes)?,
        };
        let attributes = make::put_secret(attributes, &value, Cut::Not)?;
        let key = self.token.insert(self.rights, self.session, attributes)?;
        Ok(Derived::Master(key, if versioned { secret.first_chunk().copied() } else { None }))
    }

    /// Derives two encryption keys, two MAC keys and two initialisation vectors ("Key and MAC
    /// derivation", "CKM_TLS12_KEY_SAFE_DERIVE").
    pub(super) fn tls_keys(&self, template: &Template<'_>) -> Result<Derived> {
        let Params::TlsKeys { prf, randoms, mac_len, key_len, iv_len } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        require(self.value()?.len() == MASTER, Error::KeySizeRange)?;
        // RFC 5246, 6.3: here the random value of the server comes first.
        let seed: &[&[u8]] = &[&randoms.server, &randoms.client];
        let block = self.tls(*prf, b"key expansion", seed, 2 * (mac_len + key_len + iv_len))?;
        self.guard(template)?;
        let (macs, rest) = block.split_at(2 * mac_len);
        let (keys, ivs) = rest.split_at(2 * key_len);
        let mut made = Vec::new();
        if *mac_len > 0 {
            self.put_halves(&mac_template(template), &[A::SIGN, A::VERIFY], macs, &mut made)?;
        }
        if *key_len > 0 {
            self.put_halves(template, &[A::ENCRYPT, A::DECRYPT, A::DERIVE], keys, &mut made)?;
        }
        let handles = self.token.insert_list(self.rights, self.session, made)?;
        let mut pairs = handles.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        let macs = if *mac_len > 0 { pairs.next() } else { None };
        Ok(Derived::Connection(Connection { macs, keys: pairs.next(), ivs: halves(ivs).map(Secret::from) }))
    }

    /// Adds the attributes of the client's key and of the server's key, which get the usages
    /// `uses`. "All four keys inherit the values of" `CKA_SENSITIVE` and `CKA_EXTRACTABLE` from the
    /// base key. A template with other values is refused.
    fn put_halves(
        &self,
        template: &Template<'_>,
        uses: &[A],
        values: &[u8],
        made: &mut Vec<Attributes>,
    ) -> Result<()> {
        let guard = self.guard(template)?;
        let (sensitive, extractable) = (self.base.flag(Flag::SENSITIVE), self.base.flag(Flag::EXTRACTABLE));
        let mut flags = guard.flags();
        flags.extend([(A::SENSITIVE, sensitive), (A::EXTRACTABLE, extractable)]);
        // Under *strict* a template must name each usage.
        if !self.token.settings.is_strict() {
            flags.extend(uses.iter().map(|id| (*id, true)));
        }
        let full = guard.add_flags(template, &flags);
        for value in halves(values) {
            let mut attributes = self.receive(&full, &guard, KeyType::GENERIC_SECRET)?;
            guard.bind(&mut attributes)?;
            guard.mark(&mut attributes, template, value.len(), value.len())?;
            let same = attributes.flag(A::SENSITIVE) == Some(sensitive)
                && attributes.flag(A::EXTRACTABLE) == Some(extractable);
            require(same, Error::TemplateInconsistent)?;
            let attributes = make::put_secret(attributes, &value.into(), Cut::Not)?;
            check_received(&attributes)?;
            made.push(attributes);
        }
        Ok(())
    }

    /// Computes "Generic Key Derivation using the TLS PRF" (RFC 5705, 4).
    pub(super) fn tls_kdf(&self) -> Result<Secret> {
        let Params::TlsKdf { prf, label, randoms, context } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let len = self.wanted.ok_or(Error::TemplateIncomplete)?;
        let Some(context) = context else {
            return self.tls(*prf, label, &[&randoms.client, &randoms.server], len);
        };
        let announced = u16::try_from(context.len()).map_err(|_| Error::MechanismParamInvalid)?;
        let seed: &[&[u8]] = &[&randoms.client, &randoms.server, &announced.to_be_bytes(), context];
        self.tls(*prf, label, seed, len)
    }

    /// Computes `CKM_TLS_PRF` (PKCS#11 2.40, "PRF (pseudorandom function)"). The caller gets the
    /// output itself instead of a key.
    pub(super) fn tls_prf(&self) -> Result<Derived> {
        let Params::TlsPrf { seed, label, len } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        self.guard(&Template::default())?;
        let _permit = self.admit(*len)?;
        self.tls(TlsPrf::Md5Sha1, label, &[seed], *len).map(Derived::Output)
    }

    fn tls(&self, function: TlsPrf, label: &[u8], seed: &[&[u8]], len: usize) -> Result<Secret> {
        prf(self.provider(), function, self.value()?, label, seed, len)
    }
}

/// Limits a TLS 1.2 master secret to its mechanisms: "The mechanism also contributes the
/// CKA_ALLOWED_MECHANISMS attribute".
fn restrict_to_tls12(mut attributes: Attributes) -> Result<Attributes> {
    let uses = [
        M::TLS12_KEY_AND_MAC_DERIVE,
        M::TLS12_KEY_SAFE_DERIVE,
        M::TLS_KDF,
        M::TLS_MAC,
        M::TLS12_KDF,
        M::TLS12_MAC,
    ];
    let uses = Value::Numbers(uses.map(|mechanism| mechanism.0).into());
    if attributes.has(A::ALLOWED_MECHANISMS) && !attributes.is(A::ALLOWED_MECHANISMS, &uses) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::ALLOWED_MECHANISMS, uses);
    Ok(attributes)
}

/// Returns the template of the MAC keys. The caller's template describes the encryption keys. The
/// MAC keys are generic secrets and take only storage and protection from it.
fn mac_template<'t>(template: &Template<'t>) -> Template<'t> {
    const SHARED: [A; 4] = [A::TOKEN, A::PRIVATE, A::SENSITIVE, A::EXTRACTABLE];
    Template(template.0.iter().filter(|given| SHARED.contains(&given.id)).cloned().collect())
}

/// Splits the bytes into the client's half and the server's half.
fn halves(values: &[u8]) -> [&[u8]; 2] {
    let (client, server) = values.split_at(values.len() / 2);
    [client, server]
}
