//! Makes the sets of certificates that `jeton-driver parse` reads.

use jeton_pki::{ALGORITHMS, Algorithm, Authority};

use super::hierarchy::{Hierarchy, LEVELS};
use crate::Error;
use crate::pipeline::{Engine, InProcess};

/// The number of subscribers' certificates for each algorithm.
const SUBSCRIBERS: u64 = 32;

/// A value of the option `--sets`. It selects one or more sets of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The roots of Mozilla.
    Mozilla,
    /// A CA and its subscribers, for each algorithm of the pipeline.
    Pipeline,
    /// The hierarchy of ML-DSA certificates.
    Hierarchy,
}

impl Choice {
    /// Reads a name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "mozilla" => Ok(Self::Mozilla),
            "pipeline" => Ok(Self::Pipeline),
            "hierarchy" => Ok(Self::Hierarchy),
            _ => Err(Error::Usage(format!("unknown set {name:?}; known are mozilla, pipeline, hierarchy"))),
        }
    }
}

/// A set of certificates.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) certificates: Vec<Vec<u8>>,
    /// The number of chains that were verified.
    pub(super) chains: Option<usize>,
}

/// Makes the sets of a choice.
pub(super) fn sets(choice: Choice) -> Result<Vec<Set>, Error> {
    match choice {
        Choice::Mozilla => {
            let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
            let certificates = roots.iter().map(|root| root.to_vec()).collect();
            Ok(vec![Set { name: "mozilla".to_owned(), certificates, chains: None }])
        }
        Choice::Pipeline => ALGORITHMS.iter().map(pipeline).collect(),
        Choice::Hierarchy => {
            let hierarchy = Hierarchy::generate(&LEVELS)?;
            let chains = Some(hierarchy.verify()?);
            Ok(vec![Set {
                name: "hierarchy".to_owned(),
                certificates: hierarchy.into_certificates(),
                chains,
            }])
        }
    }
}

/// Makes the certificates of a CA and its subscribers. RSA keys are slow to generate, so all
/// subscribers share one key.
fn pipeline(algorithm: &'static Algorithm) -> Result<Set, Error> {
    let mut engine = InProcess::default();
    let authority = Authority::new(algorithm, engine.make_ca(algorithm)?)?;
    let key = engine.make_subscriber(algorithm)?.public_key;
    let mut all = vec![authority.certificate_tbs()?];
    for serial in 1..=SUBSCRIBERS {
        all.push(authority.leaf_tbs(serial, key.clone())?);
    }
    let sign = |tbs: Vec<u8>| Ok(authority.assemble(&tbs, &engine.sign(&tbs)?)?);
    let certificates = all.into_iter().map(sign).collect::<Result<_, Error>>()?;
    Ok(Set { name: algorithm.name.to_owned(), certificates, chains: None })
}
