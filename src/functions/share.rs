//! Shares of split Ed25519 keys. The agent computes with them (`agent/src/split.rs`); the core
//! keeps them, and decides who may use one. The identity of an agent is kept like a share.
//! For the audit log, a share is made by `C_GenerateKeyPair` and used by `C_SignInit`.

use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::mechanism::find;

use super::Module;
use super::audit::Call;
use crate::backend::{PairSpec, PublicParts};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass, ObjectHandle, SessionHandle};
use crate::mechanism::{Mechanism, Params};
use crate::object::access::Rights;
use crate::object::flags::Flag;
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Object, key, make, spki};
use crate::token::ClientToken;

/// How a share is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ShareUse {
    /// It prepares a signature, or shows what is public of it.
    Prepares,
    /// It signs: the audit log records it, and it counts as one use of the key.
    Signs,
}

/// The templates of a new split key. The identity of an agent has no public key object.
pub struct NewShare<'a> {
    /// The template of the public key, which names the curve.
    pub public: &'a Template<'a>,
    /// The template of the share.
    pub private: &'a Template<'a>,
    /// Whether the public key becomes an object too.
    pub with_public: bool,
}

impl Module {
    /// Keeps a share of the key with this public point. Returns the handles of the share and of the
    /// public key.
    pub fn keep_share(
        &self,
        session: SessionHandle,
        new: &NewShare<'_>,
        point: [u8; 32],
        share: Secret,
    ) -> Result<Vec<ObjectHandle>> {
        let mechanism = without_parameter(MechanismType::EC_EDWARDS_KEY_PAIR_GEN)?;
        let mut made = Vec::new();
        let call = Call::of("C_GenerateKeyPair", Some(&mechanism), &[]);
        self.record_call(session, call, |token, rights| {
            let id = mechanism.info.id;
            token.settings.mechanism(id).ok_or(Error::MechanismInvalid)?;
            let public = make::generate(new.public, ObjectClass::PUBLIC_KEY, KeyType::EC_EDWARDS, rights)?;
            let private =
                make::generate(new.private, ObjectClass::PRIVATE_KEY, KeyType::JETON_SHARE, rights)?;
            token.check_pair(&public, &private)?;
            [&public, &private].into_iter().try_for_each(|half| rights.write(half))?;
            let is_ed25519 = matches!(key::pair_spec(&public, &private)?, PairSpec::Ed25519);
            require(is_ed25519, Error::CurveNotSupported)?;
            require(new.private.bytes(A::COPYABLE) != Some(&[1]), Error::TemplateInconsistent)?;
            let parts = PublicParts::Ed25519 { point };
            let info = spki::encode(&public, &parts)?;
            let private = make::put_share(private, &public, (info, share), id)?;
            let mut list = vec![private];
            if new.with_public {
                list.push(make::put_public_half(public, &parts, id)?);
            }
            made = token.insert_list(rights, session, list)?;
            made.first().copied().ok_or(Error::GeneralError)
        })?;
        Ok(made)
    }

    /// Calls `work` with the value of a share, if the session may sign with it.
    pub fn with_share<T>(
        &self,
        session: SessionHandle,
        share: ObjectHandle,
        usage: ShareUse,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let mechanism = without_parameter(MechanismType::EDDSA)?;
        if usage == ShareUse::Prepares {
            let (token, rights) = self.access(session)?;
            return work(value(&*usable(&token, rights, &mechanism, share)?)?);
        }
        let mut made = None;
        self.record_call(session, Call::of("C_SignInit", Some(&mechanism), &[share]), |token, rights| {
            let object = usable(&token, rights, &mechanism, share)?;
            if object.attributes().counts_uses() {
                token.take_use(rights, share)?;
            }
            made = Some(work(value(&object)?)?);
            Ok(())
        })?;
        made.ok_or(Error::GeneralError)
    }

    /// Calls `work` with the values of all shares that the session sees, until it returns a value.
    /// It is for the agent itself; nothing is recorded.
    pub fn find_share<T>(
        &self,
        session: SessionHandle,
        mut work: impl FnMut(ObjectHandle, &[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let (token, rights) = self.access(session)?;
        token.poll()?;
        let number = |number| Value::Number(number);
        let wanted =
            [(A::CLASS, number(ObjectClass::PRIVATE_KEY.0)), (A::KEY_TYPE, number(KeyType::JETON_SHARE.0))];
        for handle in token.search(rights, &wanted) {
            let object = token.key_object(rights, handle)?;
            if let Some(found) = work(handle, value(&object)?) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Returns the share if the session may sign with it.
fn usable(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    share: ObjectHandle,
) -> Result<Arc<Object>> {
    token.poll_occasionally()?;
    token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
    let object = token.key_object(rights, share)?;
    require(object.key_type() == Some(KeyType::JETON_SHARE), Error::KeyTypeInconsistent)?;
    require(object.flag(Flag::SIGN), Error::KeyFunctionNotPermitted)?;
    require(object.allows(mechanism.info.id), Error::MechanismInvalid)?;
    // There is no moment for the login of one use, as for other functions without an operation.
    require(!object.flag(Flag::ALWAYS_AUTHENTICATE), Error::UserNotLoggedIn)?;
    Ok(object)
}

fn value(object: &Object) -> Result<&[u8]> {
    object.attributes().bytes(A::VALUE).ok_or(Error::GeneralError)
}

fn without_parameter(id: MechanismType) -> Result<Mechanism> {
    Ok(Mechanism { info: find(id).ok_or(Error::MechanismInvalid)?, params: Params::None })
}
