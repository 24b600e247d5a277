//! Signatures with shares: the two rounds of FROST (RFC 9591).
//!
//! A nonce that signs two messages shows the share. So a nonce is in the memory of this process
//! only, and is removed before anything is computed with it. A restored backup has none. A virtual
//! machine that is resumed from a snapshot of its memory has those of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use frost_ed25519::SigningPackage;
use frost_ed25519::keys::KeyPackage;
use frost_ed25519::round1::{SigningCommitments, SigningNonces, commit};
use frost_ed25519::round2;
use serde_bytes::Bytes;

use crate::{Refusal, System, identifier};

/// The most nonces of a client. Another one takes the place of the oldest.
const MOST: usize = 64;
/// How long a nonce waits for its message.
const AGE: Duration = Duration::from_secs(60);

/// The nonces that wait for a message.
#[derive(Default)]
pub struct Nonces(Mutex<VecDeque<Waiting>>);

struct Waiting {
    commitment: Vec<u8>,
    /// The public share of the share that they are for.
    share: Vec<u8>,
    nonces: SigningNonces,
    since: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nonces {
    /// Makes nonces for a share. Returns the commitment to them.
    pub fn commit(&self, package: &KeyPackage) -> Result<Vec<u8>, Refusal> {
        let (nonces, commitments) = commit(package.signing_share(), &mut System);
        let (commitment, share) = (commitments.serialize()?, package.verifying_share().serialize()?);
        let mut all = lock(&self.0);
        all.retain(|waiting| waiting.since.elapsed() < AGE);
        while all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Waiting { commitment: commitment.clone(), share, nonces, since: Instant::now() });
        Ok(commitment)
    }

    /// Takes the nonces of a commitment. No other call gets them.
    fn take(&self, package: &KeyPackage, commitment: &[u8]) -> Result<SigningNonces, Refusal> {
        let share = package.verifying_share().serialize()?;
        let mut all = lock(&self.0);
        let is = |waiting: &Waiting| waiting.commitment == commitment && waiting.share == share;
        let waiting = all.iter().position(is).and_then(|at| all.remove(at));
        let waiting = waiting.filter(|waiting| waiting.since.elapsed() < AGE);
        waiting.map(|waiting| waiting.nonces).ok_or_else(|| Refusal::new("a commitment without nonces"))
    }

    /// Signs a message with a share and the nonces of its commitment. The nonces are gone
    /// afterwards, also if it fails.
    pub fn sign(
        &self,
        package: &KeyPackage,
        message: &[u8],
        commitments: &[(u8, &Bytes)],
    ) -> Result<Vec<u8>, Refusal> {
        let own =
            commitments.iter().find(|(number, _)| identifier(*number).ok() == Some(*package.identifier()));
        let (_, own) = own.ok_or_else(|| Refusal::new("no commitment of this agent"))?;
        let nonces = self.take(package, own)?;
        let mut all = BTreeMap::new();
        for (number, commitment) in commitments {
            let wrong = |error| Refusal::of(*number, &Refusal::from(error).0);
            let commitment = SigningCommitments::deserialize(commitment).map_err(wrong)?;
            all.insert(identifier(*number)?, commitment);
        }
        let is_distinct = all.len() == commitments.len();
        Refusal::unless(is_distinct, "an agent that is named twice")?;
        let share = round2::sign(&SigningPackage::new(all, message), &nonces, package)?;
        Ok(share.serialize())
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

#[cfg(test)]
mod tests {
    use frost_core::round1::Nonce;
    use frost_ed25519::keys::SigningShare;
    use frost_ed25519::round2::SignatureShare;
    use frost_ed25519::{Signature, VerifyingKey, aggregate};

    use super::*;
    use crate::generation::{Made, made};

    fn signature(made: &[&Made], nonces: &[Nonces], message: &[u8]) -> Signature {
        let commitments: Vec<_> = made
            .iter()
            .zip(nonces)
            .map(|(one, nonces)| (one.number, nonces.commit(&one.package).expect("a commitment")))
            .collect();
        let list: Vec<_> = commitments.iter().map(|(number, bytes)| (*number, Bytes::new(bytes))).collect();
        let shares = made.iter().zip(nonces).map(|(one, nonces)| {
            let share = nonces.sign(&one.package, message, &list).expect("a share of a signature");
            (*one.package.identifier(), SignatureShare::deserialize(&share).expect("a share"))
        });
        let shares = shares.collect();
        let all = list.iter().map(|(number, bytes)| {
            (identifier(*number).expect("a number"), SigningCommitments::deserialize(bytes).expect("it"))
        });
        let package = SigningPackage::new(all.collect(), message);
        aggregate(&package, &shares, &made[0].public).expect("a signature")
    }

    #[test]
    fn every_two_of_three_sign() {
        let made = made();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let signers = [&made[one], &made[other]];
            let signature = signature(&signers, &[Nonces::default(), Nonces::default()], b"message");
            let key = made[0].public.verifying_key();
            assert!(key.verify(b"message", &signature).is_ok());
            assert!(key.verify(b"another", &signature).is_err());
        }
    }

    #[test]
    fn a_nonce_signs_once_also_after_a_failure() {
        let made = made();
        let (nonces, others) = (Nonces::default(), Nonces::default());
        let own = nonces.commit(&made[0].package).expect("a commitment");
        let other = others.commit(&made[1].package).expect("a commitment");
        let list = [(1, Bytes::new(&own)), (2, Bytes::new(&other))];
        assert!(nonces.sign(&made[0].package, b"one", &list).is_ok());
        for message in [&b"one"[..], b"another"] {
            let refusal = nonces.sign(&made[0].package, message, &list).expect_err("a refusal");
            assert!(refusal.0.contains("without nonces"), "{}", refusal.0);
        }
        // A hostile value of another agent ends the nonces too.
        let own = nonces.commit(&made[0].package).expect("a commitment");
        let hostile = [(1, Bytes::new(&own)), (2, Bytes::new(&[0xff; 69]))];
        assert!(nonces.sign(&made[0].package, b"one", &hostile).is_err());
        let list = [(1, Bytes::new(&own)), (2, Bytes::new(&other))];
        assert!(nonces.sign(&made[0].package, b"one", &list).is_err());
        assert_eq!(nonces.count(), 0);
    }

    #[test]
    fn one_share_alone_and_another_ones_commitment_sign_nothing() {
        let made = made();
        let nonces = Nonces::default();
        let own = nonces.commit(&made[0].package).expect("a commitment");
        assert!(nonces.sign(&made[0].package, b"m", &[(1, Bytes::new(&own))]).is_err());
        // The same commitment twice, under two numbers.
        let own = nonces.commit(&made[0].package).expect("a commitment");
        let twice = [(1, Bytes::new(&own)), (1, Bytes::new(&own))];
        assert!(nonces.sign(&made[0].package, b"m", &twice).is_err());
        let own = nonces.commit(&made[0].package).expect("a commitment");
        assert!(
            nonces.sign(&made[1].package, b"m", &[(2, Bytes::new(&own)), (1, Bytes::new(&own))]).is_err()
        );
    }

    #[test]
    fn a_client_has_64_nonces_at_most() {
        let made = made();
        let nonces = Nonces::default();
        let first = nonces.commit(&made[0].package).expect("a commitment");
        for _ in 0..MOST {
            nonces.commit(&made[0].package).expect("a commitment");
        }
        assert_eq!(nonces.count(), MOST);
        assert!(nonces.take(&made[0].package, &first).is_err());
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    /// RFC 9591, E.1: FROST(Ed25519, SHA-512).
    #[test]
    fn the_vector_of_rfc_9591_gives_its_signature() {
        let group = bytes("15d21ccd7ee42959562fc8aa63224c8851fb3ec85a3faf66040d380fb9738673");
        let key = VerifyingKey::deserialize(&group).expect("a key");
        let signers = [
            (
                1,
                "929dcc590407aae7d388761cddb0c0db6f5627aea8e217f4a033f2ec83d93509",
                "ef6599dea4010581a72b3018c37c29a4341d7cab0773e8687ca74dcf14009701",
                "2baadfa0c69aa60d517ad4751de372a73f9d89cfc39026601f18458cdec12605",
            ),
            (
                3,
                "d3cb090a075eb154e82fdb4b3cb507f110040905468bb9c46da8bdea643a9a02",
                "80f8d9a4b8f9366e1a0b618107c907cd3ee29fa9bb40b4691cc1bde696240005",
                "2610b664a5a187b4855e87d2ff485bebdf043dc2f161fcd4854cd01dc0276404",
            ),
        ];
        let (mut packages, mut list) = (Vec::new(), Vec::new());
        for (number, share, hiding, binding) in signers {
            let share = SigningShare::deserialize(&bytes(share)).expect("a share");
            let id = identifier(number).expect("a number");
            let package = KeyPackage::new(id, share, share.into(), key, 2);
            let [hiding, binding] = [hiding, binding].map(|hex| Nonce::deserialize(&bytes(hex)).expect("it"));
            let nonces = SigningNonces::from_nonces(hiding, binding);
            let commitment = nonces.commitments().serialize().expect("a commitment");
            let share = package.verifying_share().serialize().expect("a share");
            let (all, since) = (Nonces::default(), Instant::now());
            lock(&all.0).push_back(Waiting { commitment: commitment.clone(), share, nonces, since });
            packages.push((package, all));
            list.push((number, commitment));
        }
        let list: Vec<_> = list.iter().map(|(number, bytes)| (*number, Bytes::new(bytes))).collect();
        let shares =
            packages.iter().map(|(package, nonces)| nonces.sign(package, b"test", &list).expect("it"));
        let expected = [
            "60997f0142e43e8005027fe5ab7447dac00d22c2d7ddd9571a02613ba7d81c08",
            "79390e78bc59699c7af831f8f5fb478ec871a85f561a8641b5670ac4443f720f",
        ];
        assert_eq!(shares.collect::<Vec<_>>(), expected.map(bytes));
    }
}
