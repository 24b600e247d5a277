//! Split Ed25519 keys: this agent has a share, and others have the others. FROST (RFC 9591) makes
//! the shares and signs with them; `docs/split-keys.md` has the threats.
//!
//! A share is an object of the token. The core decides who may use it, and records it; the rule of
//! the client holds for `C_GenerateKeyPair` and `C_Sign`.

use std::time::Duration;

use jeton::error::{Error, Result};
use jeton::functions::{Module, NewShare, ShareUse};
use jeton::id::{AttributeType as A, MechanismType, SessionHandle};
use jeton_agent_split::{
    Generation, KeyPackage, Made, Refusal, SigningKey, identity_of, new_identity, point,
};
use jeton_agent_wire::split::{Ask, Identity, Told};
use jeton_agent_wire::{self as wire, Malformed, Reply};
use jeton_secret::{Secret, with_wiped_frame};
use jeton_words::template::{Given, Raw, Template};
use jeton_words::token::Function;
use serde_bytes::Bytes;
use tracing::{error, warn};
use zeroize::Zeroizing;

use crate::connection::Connection;
use crate::dispatch::guarded;
use share_value::Kept;

mod share_value;

/// The label of the object that has the identity of this agent.
const LABEL: &str = "split identity";
/// The object identifier of Ed25519 in DER (RFC 8410).
const ED25519: &[u8] = &[6, 3, 0x2b, 0x65, 0x70];

/// The function whose rule a request has.
fn function(ask: &Ask<'_>) -> (Function, MechanismType) {
    match ask {
        Ask::Identity | Ask::Begin { .. } | Ask::Deal { .. } | Ask::Keep { .. } => {
            (Function::C_GenerateKeyPair, MechanismType::EC_EDWARDS_KEY_PAIR_GEN)
        }
        Ask::Share(_) | Ask::Commit(_) | Ask::Sign { .. } => (Function::C_Sign, MechanismType::EDDSA),
    }
}

impl Connection<'_> {
    /// Answers a request of a split key.
    pub(crate) fn split(
        &self,
        session: SessionHandle,
        ask: &Ask<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let (_, application) = self.application.as_ref().ok_or(Malformed)?;
        let module = &application.module;
        let step = || with_wiped_frame(|| self.step(module, session, ask, frame));
        let outcome = match self.refused(ask)? {
            Some(error) => {
                let ((function, mechanism), result) =
                    (function(ask), format!("refused by a rule: {error:?}"));
                error!(client = self.peer(), function = function.name(), "refused by a rule");
                module.record_refusal(Some(session), function.name(), Some(mechanism), result);
                Err(error)
            }
            None => guarded(step),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => Ok(wire::encode(&Reply::Split(Err(error)), frame)?),
        }
    }

    /// Returns the error of a request that the rule refuses.
    fn refused(&self, ask: &Ask<'_>) -> Result<Option<Error>, Malformed> {
        let Some(rule) = self.rule() else { return Ok(None) };
        Malformed::unless(self.has_turn(Duration::MAX))?;
        let (function, mechanism) = function(ask);
        let starts = if function == Function::C_Sign { Function::C_SignInit } else { function };
        if rule.refuses(function) || rule.refuses(starts) {
            return Ok(Some(Error::FunctionNotSupported));
        }
        let allowed = rule.mechanisms.as_ref();
        let is_allowed = allowed.is_none_or(|allowed| allowed.contains(&mechanism.to_string()));
        Ok((!is_allowed).then_some(Error::MechanismInvalid))
    }

    /// Carries out a request, and writes the answer.
    fn step(
        &self,
        module: &Module,
        session: SessionHandle,
        ask: &Ask<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<()> {
        let refuse = |Refusal(reason)| {
            warn!(peer = self.peer(), reason, "a step of a split key is refused");
            Error::ArgumentsBad
        };
        let mut tell =
            |told: Told<'_>| wire::encode(&Reply::Split(Ok(told)), frame).map_err(|_| Error::HostMemory);
        let begun = &self.worker.split;
        match ask {
            Ask::Identity => {
                let identity = identity(module, session).and_then(|key| identity_of(&key).map_err(refuse))?;
                tell(Told::Identity(identity))
            }
            Ask::Begin { name, threshold, agents } => {
                let identity = identity(module, session)?;
                self.check_agents(identity_of(&identity).map_err(refuse)?, agents)?;
                let (generation, opening) =
                    Generation::begin(&identity, *name, *threshold, agents).map_err(refuse)?;
                begun.add(generation);
                tell(Told::Opened(Bytes::new(&opening)))
            }
            Ask::Deal { name, opened } => {
                let identity = identity(module, session)?;
                let dealt = begun.with(name, |one| one.deal(&identity, opened)).map_err(refuse)?;
                tell(Told::Dealt(dealt.iter().map(|part| Bytes::new(part)).collect()))
            }
            Ask::Keep { name, dealt, public, private } => {
                let made = begun.with(name, |one| one.finish(dealt)).map_err(refuse)?;
                begun.end(name);
                let new = NewShare { public, private, with_public: true };
                let point = point(made.public.verifying_key()).map_err(refuse)?;
                let [share, public] = module.keep_share(session, &new, point, value(&made)?)?[..] else {
                    return Err(Error::GeneralError);
                };
                tell(Told::Kept { share, public, point, transcript: made.transcript })
            }
            Ask::Share(share) => module.with_share(session, *share, ShareUse::Prepares, |value| {
                let Kept::Share { number, public, .. } = Kept::decode(value)? else { return not_a_share() };
                tell(Told::Share { number, public })
            }),
            Ask::Commit(share) => {
                let commitment = module.with_share(session, *share, ShareUse::Prepares, |value| {
                    begun.nonces.commit(&package(value)?).map_err(refuse)
                })?;
                tell(Told::Commitment(Bytes::new(&commitment)))
            }
            Ask::Sign { share, message, commitments } => {
                let signed = module.with_share(session, *share, ShareUse::Signs, |value| {
                    begun.nonces.sign(&package(value)?, message, commitments).map_err(refuse)
                })?;
                tell(Told::Signed(Bytes::new(&signed)))
            }
        }
    }

    /// Checks that the rule of the client names the agents of a new key. The client cannot put
    /// others in their place, whose shares it knows.
    fn check_agents(&self, own: Identity, agents: &[Identity]) -> Result<()> {
        let named = self.rule().map_or(&[][..], |rule| &rule.split_with);
        for agent in agents.iter().filter(|agent| **agent != own) {
            let hex = hex(agent);
            if !named.contains(&hex) {
                error!(
                    client = self.peer(),
                    agent = hex,
                    "no rule of the client names this agent in split-with"
                );
                return Err(Error::ActionProhibited);
            }
        }
        Ok(())
    }
}

fn not_a_share<T>() -> Result<T> {
    Err(Error::KeyFunctionNotPermitted)
}

/// Returns the share in the value of an object.
fn package(value: &[u8]) -> Result<KeyPackage> {
    let Kept::Share { package, .. } = Kept::decode(value)? else { return not_a_share() };
    KeyPackage::deserialize(package).map_err(|_| Error::GeneralError)
}

/// Returns the value of the object of a new share.
fn value(made: &Made) -> Result<Secret> {
    let wrong = |_| Error::GeneralError;
    let (package, public) =
        (made.package.serialize().map_err(wrong)?, made.public.serialize().map_err(wrong)?);
    let package = Zeroizing::new(package);
    Kept::Share {
        number: made.number,
        generation: 1,
        transcript: made.transcript,
        package: Bytes::new(&package),
        public: Bytes::new(&public),
    }
    .encode()
}

/// Returns the identity of this agent on the token of the session. Makes one if there is none.
fn identity(module: &Module, session: SessionHandle) -> Result<SigningKey> {
    let wrong = |_| Error::GeneralError;
    let known = module.find_share(session, |_, value| match Kept::decode(value) {
        Ok(Kept::Identity(key)) => SigningKey::deserialize(key).ok(),
        _ => None,
    })?;
    if let Some(key) = known {
        return Ok(key);
    }
    let key = new_identity();
    let own = identity_of(&key).map_err(|_| Error::GeneralError)?;
    let bytes = Zeroizing::new(key.serialize());
    let value = Kept::Identity(Bytes::new(&bytes)).encode()?;
    let given = |id, value| Given { id, value: Raw::Bytes(value) };
    let public = Template(vec![given(A::EC_PARAMS, ED25519)]);
    let private = Template(vec![
        given(A::TOKEN, &[1]),
        given(A::LABEL, LABEL.as_bytes()),
        given(A::SIGN, &[0]),
        given(A::MODIFIABLE, &[0]),
    ]);
    module.keep_share(
        session,
        &NewShare { public: &public, private: &private, with_public: false },
        own,
        value,
    )?;
    SigningKey::deserialize(&bytes).map_err(wrong)
}

/// Returns the hexadecimal digits of an identity.
fn hex(identity: &Identity) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}
