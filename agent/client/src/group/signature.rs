//! Signatures of a group. Each agent commits to nonces, gets the message with all commitments, and
//! answers its share of the signature. The sum is verified before the application gets it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use frost_ed25519::keys::PublicKeyPackage;
use frost_ed25519::round1::SigningCommitments;
use frost_ed25519::round2::SignatureShare;
use frost_ed25519::{Error as FrostError, Identifier, SigningPackage, aggregate};
use jeton_agent_wire::Malformed;
use jeton_agent_wire::split::{Ask, Told};
use jeton_words::error::{Error, Result};
use jeton_words::id::{MechanismType, ObjectHandle, SessionHandle};
use jeton_words::mechanism::Mechanism;
use jeton_words::operation::{Output, Signed};
use jeton_words::params::Params;
use jeton_words::token::Token;
use serde_bytes::Bytes;
use tracing::error;

use super::keys::{Half, Key, Part};
use super::member::lock;
use super::sessions::{Group, Open};
use crate::remote::Remote;

/// The length of a signature.
const LENGTH: usize = 64;
/// The longest message in several parts.
const LONGEST: usize = 64 << 20;
/// The parts of the time of a call that one agent has, so that others can take its place.
const TURNS: u32 = 4;

/// Whether a verification goes on after a call that succeeds.
#[derive(PartialEq)]
enum Step {
    Next,
    Last,
}

/// An agent that signs.
struct Signer {
    at: usize,
    session: SessionHandle,
    part: Part,
    commitment: Vec<u8>,
}

impl Group {
    pub fn sign_init(&self, session: SessionHandle, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        if open.signs.is_some() {
            return Err(Error::OperationActive);
        }
        if mechanism.info.id != MechanismType::EDDSA {
            return Err(Error::MechanismInvalid);
        }
        // Ed25519ph and a context are other messages to an agent than the application's.
        if mechanism.params != Params::None {
            return Err(Error::MechanismParamInvalid);
        }
        match self.key(key).map_err(|_| Error::KeyHandleInvalid)? {
            (at, Half::Private, _) => open.signs = Some((at, Vec::new())),
            _ => return Err(Error::KeyFunctionNotPermitted),
        }
        Ok(())
    }

    pub fn sign(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<Signed> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        match &open.signs {
            Some((_, parts)) if parts.is_empty() => self.finish(&mut open, Some(data), out),
            _ => Err(Error::OperationNotInitialized),
        }
    }

    pub fn sign_update(&self, session: SessionHandle, part: &[u8]) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        let (_, parts) = open.signs.as_mut().ok_or(Error::OperationNotInitialized)?;
        if parts.len() + part.len() > LONGEST || parts.try_reserve(part.len()).is_err() {
            open.signs = None;
            return Err(Error::DeviceMemory);
        }
        parts.extend_from_slice(part);
        Ok(())
    }

    pub fn sign_final(&self, session: SessionHandle, out: Output<'_>) -> Result<Signed> {
        let open = self.find_open(session)?;
        self.finish(&mut lock(&open), None, out)
    }

    /// Signs `data`, or else the parts. The operation stays if the caller asks for the length, or
    /// has no room.
    fn finish(&self, open: &mut Open, data: Option<&[u8]>, out: Output<'_>) -> Result<Signed> {
        let Output::Buffer(out) = out else {
            return open.signs.as_ref().map(|_| Signed::Bytes(LENGTH)).ok_or(Error::OperationNotInitialized);
        };
        let place = out.get_mut(..LENGTH).ok_or(Error::BufferTooSmall { needed: LENGTH });
        let (at, parts) = match place {
            Ok(_) => open.signs.take().ok_or(Error::OperationNotInitialized)?,
            Err(error) => return Err(open.signs.as_ref().map_or(Error::OperationNotInitialized, |_| error)),
        };
        let signature = self.signature(open, at, data.unwrap_or(&parts))?;
        out[..LENGTH].copy_from_slice(&signature);
        Ok(Signed::Bytes(LENGTH))
    }

    /// Makes a signature with as many agents as the key needs. Others take the place of those that
    /// do not do their part.
    fn signature(&self, open: &mut Open, at: usize, message: &[u8]) -> Result<Vec<u8>> {
        let key = lock(&self.keys).get(at).cloned().ok_or(Error::KeyHandleInvalid)?;
        let public = PublicKeyPackage::deserialize(&key.public).map_err(|_| Error::DeviceError)?;
        let needed = usize::from(public.min_signers().ok_or(Error::DeviceError)?);
        let end = self.end();
        let mut failed = vec![false; self.members.len()];
        let mut failure = Error::DeviceError;
        let mut has_looked = false;
        while Instant::now() < end {
            match self.attempt(open, &self.current(at, &key), (&public, needed), message, end, &mut failed) {
                Ok(signature) => return Ok(signature),
                Err(None) if !has_looked => {
                    // An agent that was away may have another handle of its share.
                    self.look(open)?;
                    has_looked = true;
                }
                Err(None) => break,
                Err(Some(error)) => failure = error,
            }
        }
        error!(needed, "too few agents sign");
        Err(failure)
    }

    fn current(&self, at: usize, key: &Key) -> Key {
        lock(&self.keys).get(at).cloned().unwrap_or_else(|| key.clone())
    }

    /// Makes a signature with the first agents that have not failed. Notes those that fail. Fails
    /// with `None` if there are too few.
    fn attempt(
        &self,
        open: &mut Open,
        key: &Key,
        (public, needed): (&PublicKeyPackage, usize),
        message: &[u8],
        end: Instant,
        failed: &mut [bool],
    ) -> Result<Vec<u8>, Option<Error>> {
        let mut signers: Vec<Signer> = Vec::new();
        // Those that failed a short time ago come last.
        let mut order: Vec<_> = (0..self.members.len()).filter(|at| !failed[*at]).collect();
        order.sort_by_key(|at| self.members[*at].is_doubtful());
        for at in order {
            if signers.len() == needed {
                break;
            }
            let Some(part) = key.parts[at] else { continue };
            let session = self.session_at(open, at);
            let commit = |session| {
                let turn = self.turn(end);
                self.members[at].ask(session, Ask::Commit(part.share), turn, |told| match told {
                    Told::Commitment(commitment) => Ok(commitment.to_vec()),
                    _ => Err(Malformed),
                })
            };
            match session.and_then(|session| Ok((session, commit(session)?))) {
                Ok((session, commitment)) => signers.push(Signer { at, session, part, commitment }),
                Err(error) => {
                    failed[at] = true;
                    self.lose(open, at, error);
                    if signers.len() + failed.iter().filter(|failed| !**failed).count() < needed {
                        return Err(Some(error));
                    }
                }
            }
        }
        if signers.len() < needed {
            return Err(None);
        }
        self.sum(&signers, public, message, end).map_err(|(at, error)| {
            failed[at] = true;
            self.lose(open, at, error);
            Some(error)
        })
    }

    /// Gets the shares of the signature, and adds them. Fails with the agent that is to blame.
    fn sum(
        &self,
        signers: &[Signer],
        public: &PublicKeyPackage,
        message: &[u8],
        end: Instant,
    ) -> Result<Vec<u8>, (usize, Error)> {
        let commitments: Vec<_> =
            signers.iter().map(|signer| (signer.part.number, Bytes::new(&signer.commitment))).collect();
        let (mut all, mut shares, mut agents) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for Signer { at, session, part, commitment } in signers {
            let blame = |error| (*at, error);
            let wrong = |_| (*at, Error::DeviceError);
            let id = Identifier::try_from(u16::from(part.number)).map_err(wrong)?;
            all.insert(id, SigningCommitments::deserialize(commitment).map_err(wrong)?);
            agents.insert(id, *at);
            let ask = Ask::Sign {
                share: part.share,
                message: Bytes::new(message),
                commitments: commitments.clone(),
            };
            let member = &self.members[*at];
            let share = member.ask(*session, ask, self.turn(end), |told| match told {
                Told::Signed(share) => Ok(share.to_vec()),
                _ => Err(Malformed),
            });
            let share = SignatureShare::deserialize(&share.map_err(blame)?).map_err(wrong)?;
            shares.insert(id, share);
        }
        let signature = aggregate(&SigningPackage::new(all, message), &shares, public).map_err(|error| {
            let culprit = match error {
                FrostError::InvalidSignatureShare { culprits } => culprits.first().copied(),
                _ => None,
            };
            let at = culprit.and_then(|id| agents.get(&id)).copied().unwrap_or(signers[0].at);
            error!(agent = self.members[at].address, "its share of a signature is wrong");
            (at, Error::DeviceError)
        })?;
        signature.serialize().map_err(|_| (signers[0].at, Error::DeviceError))
    }

    /// Returns how long one agent has.
    fn turn(&self, end: Instant) -> Instant {
        let turn: Duration = self.patience / TURNS;
        (Instant::now() + turn).min(end)
    }

    pub fn verify_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        if open.verifies.is_some() {
            return Err(Error::OperationActive);
        }
        let (_, half, key) = self.key(key).map_err(|_| Error::KeyHandleInvalid)?;
        let at = self.at_one(&mut open, |at, member, session| {
            let part = key.parts[at].ok_or(Error::DeviceError)?;
            member.remote.verify_init(session, mechanism, part.of(half)).map(|()| at)
        })?;
        open.verifies = Some(at);
        Ok(())
    }

    pub fn verify(&self, session: SessionHandle, data: &[u8], signature: &[u8]) -> Result<()> {
        self.verifying(session, Step::Last, |agent, at| agent.verify(at, data, signature))
    }

    pub fn verify_update(&self, session: SessionHandle, part: &[u8]) -> Result<()> {
        self.verifying(session, Step::Next, |agent, at| agent.verify_update(at, part))
    }

    pub fn verify_final(&self, session: SessionHandle, signature: &[u8]) -> Result<()> {
        self.verifying(session, Step::Last, |agent, at| agent.verify_final(at, signature))
    }

    fn verifying(
        &self,
        session: SessionHandle,
        step: Step,
        work: impl FnOnce(&Remote, SessionHandle) -> Result<()>,
    ) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        let at = open.verifies.take().ok_or(Error::OperationNotInitialized)?;
        let session = open.at[at].ok_or(Error::DeviceError)?;
        work(&self.members[at].remote, session)?;
        open.verifies = (step == Step::Next).then_some(at);
        Ok(())
    }
}
