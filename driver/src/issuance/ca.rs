//! The CA: it receives a request and returns a certificate.

use der::Encode;
use jeton_pki::{Algorithm, Authority, Request, Signed};

use super::load::{Clock, Phase};
use super::policy::Policy;
use super::pool::Pool;
use crate::Error;
use crate::pipeline::{Engine, PublicKey, Stored};

/// A CA with its key and its database.
pub(super) struct Ca<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) authority: Authority,
    /// The CA's public key, with which clients verify certificates.
    pub(super) public: PublicKey,
    pub(super) policy: Policy,
    pub(super) pool: Pool,
}

impl Ca<'_> {
    /// Issues a certificate for a request in DER. Returns `None` if the database was busy.
    pub(super) fn issue(
        &self,
        serial: u64,
        request: &[u8],
        days: u32,
        clock: &mut Clock,
    ) -> Result<Option<Vec<u8>>, Error> {
        let info = verified(request)?;
        clock.lap(Phase::RequestVerify);

        let refused = |refusal| Error::Failed(format!("the request with serial {serial}: {refusal}"));
        let names = self.policy.check(&info, days).map_err(refused)?;
        let tbs = self.authority.requested_tbs(serial, info.subject, names, info.public_key, days)?;
        clock.lap(Phase::Policy);

        let certificate = self.authority.assemble(&tbs, &self.engine.sign(&tbs)?)?;
        clock.lap(Phase::Sign);

        Ok(match self.pool.store(serial, &certificate, clock)? {
            Stored::Done => Some(certificate),
            Stored::Busy => None,
        })
    }
}

/// Verifies the signature of a request with the key in the request. Returns the content of the
/// request.
pub(super) fn verified(request: &[u8]) -> Result<Request<'_>, Error> {
    let signed = Signed::parse(request)?;
    let info = Request::parse(signed.tbs)?;
    let wrong = |what: &str| Error::Failed(format!("a certificate request: {what}"));
    let algorithm =
        Algorithm::of_public_key(&info.public_key).ok_or_else(|| wrong("its type of key is unknown"))?;
    if signed.algorithm != algorithm.signature.to_owned().to_der()? {
        return Err(wrong("the algorithm of its signature is not that of its key"));
    }
    if !PublicKey::parse(algorithm, &info.public_key)?.verify(signed.tbs, signed.signature) {
        return Err(wrong("its signature does not verify"));
    }
    Ok(info)
}
