//! A synthetic hierarchy of CAs with ML-DSA-65 keys, as large as that of the Common CA Database.

use std::collections::HashSet;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::encoding::PublicKeyX509Der;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::signature::{KeyPair as _, ML_DSA_65, ML_DSA_65_SIGNING, ParsedPublicKey, PqdsaKeyPair};
use der::{Decode, Encode};
use jeton_pki::{Algorithm, Authority, Signed};
use rayon::prelude::*;
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::Certificate;

use crate::Error;

/// The number of certificates at each depth, as in the measurements of source document 001
/// (docs/benchmarks/seeds.md). The document's table has 6627 at depth 1, which is the number in the
/// database. The measurements leave out nine of these certificates.
pub const LEVELS: [usize; 5] = [919, 6618, 2212, 137, 3];

/// A hierarchy: the certificates of each level, with the index of each issuer in the level above.
pub(super) struct Hierarchy {
    levels: Vec<Vec<Node>>,
}

struct Node {
    der: Vec<u8>,
    /// The index of the issuer in the level above. For a root, its own index.
    issuer: usize,
}

/// A CA that issues the next level.
struct Issuer {
    authority: Authority,
    key: PqdsaKeyPair,
}

impl Hierarchy {
    /// Generates the keys and signs the certificates. `sizes` has the number of certificates of
    /// each level.
    pub(super) fn generate(sizes: &[usize]) -> Result<Self, Error> {
        let algorithm = Algorithm::named("ml-dsa-65")?;
        let mut levels: Vec<Vec<Node>> = Vec::new();
        let mut above: Vec<Issuer> = Vec::new();
        for (depth, size) in sizes.iter().enumerate() {
            let made: Vec<(Node, Issuer)> = (0..*size)
                .into_par_iter()
                .map(|index| node(algorithm, depth, index, &above))
                .collect::<Result<_, Error>>()?;
            let (nodes, issuers) = made.into_iter().unzip();
            levels.push(nodes);
            above = issuers;
        }
        Ok(Self { levels })
    }

    /// Verifies the chain of each certificate to its root: the names, that the issuer is a CA, and
    /// the signatures. Fails if two certificates have the same subject. Returns the number of
    /// chains.
    pub(super) fn verify(&self) -> Result<usize, Error> {
        let mut names = HashSet::new();
        for (depth, level) in self.levels.iter().enumerate() {
            let issuers = self.levels[depth.saturating_sub(1)].as_slice();
            // The levels above are already verified, so one link completes each chain.
            let subjects: Vec<_> =
                level.par_iter().map(|node| link(node, &issuers[node.issuer])).collect::<Result<_, _>>()?;
            for subject in subjects {
                if !names.insert(subject) {
                    return Err(Error::Failed(
                        "two certificates of the hierarchy have the same name".to_owned(),
                    ));
                }
            }
        }
        Ok(names.len())
    }

    /// Returns the certificates, the roots first.
    pub(super) fn into_certificates(self) -> Vec<Vec<u8>> {
        self.levels.into_iter().flatten().map(|node| node.der).collect()
    }
}

fn node(
    algorithm: &'static Algorithm,
    depth: usize,
    index: usize,
    above: &[Issuer],
) -> Result<(Node, Issuer), Error> {
    let failed = |Unspecified| Error::InProcess("making the hierarchy");
    let key = PqdsaKeyPair::generate(&ML_DSA_65_SIGNING).map_err(failed)?;
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(failed)?;
    let info = SubjectPublicKeyInfoOwned::from_der(public.as_ref())?;
    let name = format!("Synthetic CA {depth} {index}");
    let authority = Authority::named(algorithm, info, &name)?;
    let sign = |key: &PqdsaKeyPair, tbs: &[u8]| {
        let mut signature = vec![0; key.algorithm().signature_len()];
        key.sign(tbs, &mut signature).map(|_| signature).map_err(failed)
    };
    let issuer = if above.is_empty() { 0 } else { index % above.len() };
    // A root signs its own certificate.
    let (parent, parent_key) = match above.get(issuer) {
        None => (&authority, &key),
        Some(Issuer { authority, key }) => (authority, key),
    };
    let tbs = parent.subordinate_tbs(index as u64 + 1, &authority)?;
    let der = parent.assemble(&tbs, &sign(parent_key, &tbs)?)?;
    // A root is its own issuer.
    let issuer = if above.is_empty() { index } else { issuer };
    Ok((Node { der, issuer }, Issuer { authority, key }))
}

/// Verifies a certificate with the certificate of its issuer. Returns the subject in DER.
fn link(node: &Node, issuer: &Node) -> Result<Vec<u8>, Error> {
    let wrong = |what: &str| Error::Failed(format!("a certificate of the hierarchy {what}"));
    let [own, parent] = [node, issuer].map(|one| Certificate::from_der(&one.der));
    let (own, parent) = (own?.tbs_certificate, parent?.tbs_certificate);
    if own.issuer != parent.subject {
        return Err(wrong("names another issuer"));
    }
    let constraints = parent.get::<x509_cert::ext::pkix::BasicConstraints>();
    if !constraints?.is_some_and(|(_, constraints)| constraints.ca) {
        return Err(wrong("has an issuer that is not a CA"));
    }
    let key = ParsedPublicKey::new(&ML_DSA_65, parent.subject_public_key_info.to_der()?);
    let signed = Signed::parse(&node.der)?;
    let verified = key.is_ok_and(|key| key.verify_sig(signed.tbs, signed.signature).is_ok());
    if verified { Ok(own.subject.to_der()?) } else { Err(wrong("has a signature that does not verify")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_have_9889_certificates_together() {
        assert_eq!(LEVELS.iter().sum::<usize>(), 9889);
    }

    #[test]
    fn the_chains_of_a_hierarchy_verify_and_a_changed_one_does_not() {
        let mut hierarchy = Hierarchy::generate(&[2, 5, 3, 1]).expect("AWS-LC has ML-DSA");
        assert_eq!(hierarchy.verify().expect("all are genuine"), 11);
        let last = hierarchy.levels[2][1].der.len() - 1;
        hierarchy.levels[2][1].der[last] ^= 1;
        let error = hierarchy.verify().expect_err("one is changed");
        assert_eq!(error.to_string(), "a certificate of the hierarchy has a signature that does not verify");
        hierarchy.levels[2][1].der[last] ^= 1;
        hierarchy.levels[1][0].issuer = 1;
        let error = hierarchy.verify().expect_err("another issuer");
        assert_eq!(error.to_string(), "a certificate of the hierarchy names another issuer");
    }
}
