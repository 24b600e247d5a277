//! The generation of a key by several agents: the distributed key generation of FROST, in three
//! rounds. A client relays what the agents say.
//!
//! Each agent signs what it says with its identity, which the rules of the others name. What it
//! deals to another agent is encrypted with HPKE (RFC 9180), for a key that this one has made for
//! this generation and signed in the first round. All that an agent deals is signed together with
//! the digest of the first round that it saw: another agent keeps nothing if it saw another one.

use std::collections::BTreeMap;

use frost_ed25519::keys::dkg::{part1, part2, part3, round1, round2};
use frost_ed25519::keys::{KeyPackage, PublicKeyPackage};
use frost_ed25519::{Identifier, Signature, SigningKey, VerifyingKey};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_CHACHA20_POLY1305 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Identity, Name, Refusal, System, identifier, identity_of};

/// The most agents: their numbers have eight bits.
const MOST: usize = u8::MAX as usize;

/// A generation in which this agent takes part.
pub struct Generation {
    /// Its name.
    pub name: Name,
    threshold: u8,
    agents: Vec<Identity>,
    /// The number of this agent, from 1.
    number: u8,
    stage: Stage,
}

enum Stage {
    Begun {
        secret: round1::SecretPackage,
        key: HpkePrivateKey,
        /// What this agent said.
        opening: Vec<u8>,
    },
    Dealt {
        secret: round2::SecretPackage,
        key: HpkePrivateKey,
        packages: BTreeMap<Identifier, round1::Package>,
        transcript: [u8; 32],
    },
    /// A round failed, or all rounds are over.
    Over,
}

/// What an agent says in the first round.
#[derive(Serialize, Deserialize)]
struct Opening<'a> {
    #[serde(borrow)]
    package: &'a Bytes,
    /// The public key of HPKE.
    #[serde(borrow)]
    key: &'a Bytes,
    #[serde(borrow)]
    signature: &'a Bytes,
}

/// What an agent deals to another one.
#[derive(Serialize, Deserialize)]
struct Dealing<'a> {
    #[serde(borrow)]
    encapsulated: &'a Bytes,
    #[serde(borrow)]
    sealed: &'a Bytes,
    #[serde(borrow)]
    signature: &'a Bytes,
}

/// What an agent has after the last round.
pub struct Made {
    /// The number of the agent, from 1.
    pub number: u8,
    /// The share.
    pub package: KeyPackage,
    /// The public shares of all agents, and the key.
    pub public: PublicKeyPackage,
    /// The digest of what all agents said in the first round.
    pub transcript: [u8; 32],
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    postcard::to_stdvec(value).map_err(|_| Refusal::new("a message that cannot be encoded"))
}

fn sign(identity: &SigningKey, said: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    Ok(identity.sign(System, &encoded(said)?).serialize()?)
}

/// Checks that the agent with this number said it.
fn verify(number: u8, identity: &Identity, said: &impl Serialize, signature: &[u8]) -> Result<(), Refusal> {
    let is_right = || {
        let key = VerifyingKey::deserialize(identity).ok()?;
        key.verify(&encoded(said).ok()?, &Signature::deserialize(signature).ok()?).ok()
    };
    is_right().ok_or_else(|| Refusal::of(number, "the signature is not that of its identity"))
}

fn decoded<'a, T: Deserialize<'a>>(number: u8, bytes: &'a [u8]) -> Result<T, Refusal> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Refusal::of(number, "a message that cannot be decoded")),
    }
}

impl Generation {
    /// Begins a generation. Returns what the other agents get.
    pub fn begin(
        identity: &SigningKey,
        name: Name,
        threshold: u8,
        agents: &[Identity],
    ) -> Result<(Self, Vec<u8>), Refusal> {
        let own = identity_of(identity)?;
        let is_distinct = agents.iter().enumerate().all(|(at, agent)| !agents[..at].contains(agent));
        Refusal::unless(is_distinct, "an agent that is named twice")?;
        let fits = agents.len() <= MOST && (2..=agents.len()).contains(&usize::from(threshold));
        Refusal::unless(fits, "a threshold, or a number of agents, that no split key has")?;
        let at = agents.iter().position(|agent| *agent == own);
        let number = at.ok_or_else(|| Refusal::new("this agent is not one of the agents"))? as u8 + 1;
        let count = agents.len() as u16;
        let (secret, package) = part1(identifier(number)?, count, u16::from(threshold), System)?;
        let unable = |_| Refusal::new("no key of HPKE");
        let (key, private) = SUITE.generate_key_pair().map_err(unable)?;
        let package = package.serialize()?;
        let agents = agents.to_vec();
        let mut made = Self { name, threshold, agents, number, stage: Stage::Over };
        let signature = sign(identity, &made.opening(number, &package, &key.0))?;
        let (package, hpke, signature) = (Bytes::new(&package), Bytes::new(&key.0), Bytes::new(&signature));
        let opening = encoded(&Opening { package, key: hpke, signature })?;
        made.stage = Stage::Begun { secret, key: private, opening: opening.clone() };
        Ok((made, opening))
    }

    /// Returns what an agent signs in the first round.
    fn opening<'a>(&'a self, number: u8, package: &'a [u8], key: &'a [u8]) -> impl Serialize + use<'a> {
        let (package, key) = (Bytes::new(package), Bytes::new(key));
        ("jeton split 1", self.name, self.threshold, &self.agents, number, package, key)
    }

    /// Ends the first round with what all agents said. Returns what each agent gets.
    pub fn deal(&mut self, identity: &SigningKey, opened: &[&Bytes]) -> Result<Vec<Vec<u8>>, Refusal> {
        let Stage::Begun { secret, key, opening } = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Err(Refusal::new("the first round is over"));
        };
        let is_whole = opened.len() == self.agents.len();
        let has_own = is_whole && opened[usize::from(self.number) - 1][..] == opening;
        Refusal::unless(has_own, "another first round than that of this agent")?;
        let (mut packages, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (number, agent, said) in self.others(opened) {
            let Opening { package, key, signature } = decoded(number, said)?;
            verify(number, agent, &self.opening(number, package, key), signature)?;
            let wrong = |error| Refusal::of(number, &Refusal::from(error).0);
            packages.insert(identifier(number)?, round1::Package::deserialize(package).map_err(wrong)?);
            keys.insert(number, HpkePublicKey(key.to_vec()));
        }
        let said = ("jeton split", self.name, self.threshold, &self.agents, opened);
        let transcript: [u8; 32] = Sha256::digest(encoded(&said)?).into();
        let (secret, shares) = part2(secret, &packages)?;
        let mut dealt = vec![Vec::new(); self.agents.len()];
        for (number, to) in keys {
            let share = shares.get(&identifier(number)?).ok_or_else(|| Refusal::of(number, "no share"))?;
            let share = Zeroizing::new(share.serialize()?);
            let (from, aad) = (self.number, [self.number, number]);
            let unable = |_| Refusal::of(number, "its key of HPKE is wrong");
            let (encapsulated, sealed) = SUITE.seal(&transcript, &aad, &share, &to).map_err(unable)?;
            let (encapsulated, sealed) = (Bytes::new(&encapsulated.0), Bytes::new(&sealed));
            let signature = sign(identity, &dealing(&transcript, from, number, encapsulated, sealed))?;
            let signature = Bytes::new(&signature);
            dealt[usize::from(number) - 1] = encoded(&Dealing { encapsulated, sealed, signature })?;
        }
        self.stage = Stage::Dealt { secret, key, packages, transcript };
        Ok(dealt)
    }

    /// Ends the generation with what all agents dealt to this one.
    pub fn finish(&mut self, dealt: &[&Bytes]) -> Result<Made, Refusal> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Dealt { secret, key, packages, transcript } = stage else {
            return Err(Refusal::new("it is not the time of the third round"));
        };
        Refusal::unless(dealt.len() == self.agents.len(), "a part for each agent is missing")?;
        let mut shares = BTreeMap::new();
        for (number, agent, said) in self.others(dealt) {
            let Dealing { encapsulated, sealed, signature } = decoded(number, said)?;
            // It also says that the other agent saw the same first round.
            let said = dealing(&transcript, number, self.number, encapsulated, sealed);
            verify(number, agent, &said, signature)?;
            let (aad, from) = ([number, self.number], EncapsulatedSecret(encapsulated.to_vec()));
            let unable = |_| Refusal::of(number, "what it dealt cannot be decrypted");
            let share = Zeroizing::new(SUITE.open(&from, &transcript, &aad, sealed, &key).map_err(unable)?);
            let wrong = |error| Refusal::of(number, &Refusal::from(error).0);
            shares.insert(identifier(number)?, round2::Package::deserialize(&share).map_err(wrong)?);
        }
        let (package, public) = part3(&secret, &packages, &shares)?;
        Ok(Made { number: self.number, package, public, transcript })
    }

    /// Returns the parts of the other agents, with their numbers and identities.
    fn others<'a>(&'a self, parts: &'a [&'a Bytes]) -> impl Iterator<Item = (u8, &'a Identity, &'a [u8])> {
        let all = (1..).zip(self.agents.iter().zip(parts));
        let all = all.map(|(number, (agent, part))| (number, agent, &part[..]));
        all.filter(move |(number, ..)| *number != self.number)
    }
}

/// Returns what an agent signs in the second round.
fn dealing<'a>(
    transcript: &'a [u8; 32],
    from: u8,
    to: u8,
    encapsulated: &'a Bytes,
    sealed: &'a Bytes,
) -> impl Serialize + use<'a> {
    ("jeton split 2", transcript, from, to, encapsulated, sealed)
}

#[cfg(test)]
pub(crate) use tests::made;

#[cfg(test)]
mod tests {
    use super::*;

    pub fn agents() -> (Vec<SigningKey>, Vec<Identity>) {
        let keys: Vec<_> = (0..3).map(|_| SigningKey::new(&mut System)).collect();
        let identities = keys.iter().map(|key| identity_of(key).expect("a key")).collect();
        (keys, identities)
    }

    fn borrowed(parts: &[Vec<u8>]) -> Vec<&Bytes> {
        parts.iter().map(|part| Bytes::new(part)).collect()
    }

    /// Begins a generation of two of three at each agent.
    fn begin(keys: &[SigningKey], agents: &[Identity]) -> (Vec<Generation>, Vec<Vec<u8>>) {
        keys.iter().map(|key| Generation::begin(key, [9; 32], 2, agents).expect("a beginning")).unzip()
    }

    /// Returns what each agent gets from the others.
    fn dealt_to(at: usize, dealt: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        dealt.iter().map(|parts| parts[at].clone()).collect()
    }

    /// Makes a key, two of three.
    pub fn made() -> Vec<Made> {
        let (keys, agents) = agents();
        let (mut all, opened) = begin(&keys, &agents);
        let opened = borrowed(&opened);
        let dealt = all.iter_mut().zip(&keys).map(|(one, key)| one.deal(key, &opened).expect("a deal"));
        let dealt: Vec<_> = dealt.collect();
        let made = all.iter_mut().enumerate().map(|(at, one)| {
            let dealt = dealt_to(at, &dealt);
            one.finish(&borrowed(&dealt)).expect("a share")
        });
        made.collect()
    }

    #[test]
    fn agents_make_one_key_and_three_shares() {
        let made = made();
        for other in &made[1..] {
            assert_eq!(other.public.verifying_key(), made[0].public.verifying_key());
            assert_eq!(other.transcript, made[0].transcript);
            assert!(other.package.signing_share() != made[0].package.signing_share());
        }
    }

    #[test]
    fn a_plan_that_no_key_has_is_refused() {
        let (keys, agents) = agents();
        let begin = |threshold, agents: &[Identity]| {
            Generation::begin(&keys[0], [9; 32], threshold, agents).map(drop)
        };
        assert!(begin(2, &agents).is_ok());
        for (threshold, list) in [
            (1, agents.clone()),
            (4, agents.clone()),
            (2, agents[..1].to_vec()),
            (2, agents[1..].to_vec()),
            (2, vec![agents[0], agents[0], agents[1]]),
        ] {
            assert!(begin(threshold, &list).is_err(), "{threshold} of {}", list.len());
        }
    }

    /// The client, or an agent, sends one agent another first round than the others.
    #[test]
    fn an_agent_that_saw_another_first_round_keeps_nothing() {
        let (keys, agents) = agents();
        let (mut all, opened) = begin(&keys, &agents);
        // The second agent says something else to the third one.
        let (_, other) = Generation::begin(&keys[1], [9; 32], 2, &agents).expect("a beginning");
        let second = vec![opened[0].clone(), other, opened[2].clone()];
        let mut dealt = Vec::new();
        for (at, one) in all.iter_mut().enumerate() {
            let seen = if at == 2 { &second } else { &opened };
            dealt.push(one.deal(&keys[at], &borrowed(seen)).expect("a deal"));
        }
        for (at, one) in all.iter_mut().enumerate() {
            let refusal = one.finish(&borrowed(&dealt_to(at, &dealt))).map(drop).expect_err("a refusal");
            assert!(refusal.0.contains("signature is not that of its identity"), "{}", refusal.0);
        }
    }

    #[test]
    fn a_first_round_of_another_identity_is_refused_by_name() {
        let (keys, agents) = agents();
        let (mut all, mut opened) = begin(&keys, &agents);
        // The client makes the first round of the second agent itself.
        let own = SigningKey::new(&mut System);
        let false_agents = [agents[0], identity_of(&own).expect("a key"), agents[2]];
        opened[1] = Generation::begin(&own, [9; 32], 2, &false_agents).expect("a beginning").1;
        let refusal = all[0].deal(&keys[0], &borrowed(&opened)).expect_err("a refusal");
        assert!(refusal.0.starts_with("agent 2: "), "{}", refusal.0);
        // It cannot go on with the right one either.
        assert!(all[0].deal(&keys[0], &borrowed(&opened)).is_err());
    }

    #[test]
    fn every_changed_byte_of_a_deal_is_refused_by_name() {
        let (keys, agents) = agents();
        let (mut all, opened) = begin(&keys, &agents);
        let opened = borrowed(&opened);
        let dealt: Vec<_> =
            all.iter_mut().zip(&keys).map(|(one, key)| one.deal(key, &opened).expect("a deal")).collect();
        let (whole, len) = (dealt_to(0, &dealt), dealt[2][0].len());
        let Stage::Dealt { secret, key, packages, transcript } = &all[0].stage else { panic!("a stage") };
        let again = || Stage::Dealt {
            secret: secret.clone(),
            key: key.secret_bytes().to_vec().into(),
            packages: packages.clone(),
            transcript: *transcript,
        };
        let stages: Vec<_> = (0..len).map(|_| again()).collect();
        for (at, stage) in stages.into_iter().enumerate() {
            let mut changed = whole.clone();
            changed[2][at] ^= 1;
            all[0].stage = stage;
            let refusal = all[0].finish(&borrowed(&changed)).map(drop).expect_err("a refusal");
            assert!(refusal.0.starts_with("agent 3: "), "byte {at}: {}", refusal.0);
        }
    }

    #[test]
    fn what_was_dealt_to_another_agent_is_refused() {
        let (keys, agents) = agents();
        let (mut all, opened) = begin(&keys, &agents);
        let opened = borrowed(&opened);
        let dealt: Vec<_> =
            all.iter_mut().zip(&keys).map(|(one, key)| one.deal(key, &opened).expect("a deal")).collect();
        let mut parts = dealt_to(0, &dealt);
        parts[1] = dealt[1][2].clone();
        assert!(all[0].finish(&borrowed(&parts)).is_err());
    }
}
