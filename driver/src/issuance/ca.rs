//! The CA: it receives a request and returns a certificate.

use der::{Decode, Encode};
use jeton_pki::Signed;
use jeton_pki::certificate::{Signer, assemble};
use jeton_pki::issuer::{Issuer, Request};
use spki::SubjectPublicKeyInfoOwned;

use super::load::{Clock, Phase};
use super::pool::Pool;
use crate::Error;
use crate::algorithm::Algorithm;
use crate::pipeline::{Engine, PublicKey, Stored, order, serial_number};

const PROFILE: &str = "tls-server";

pub(super) struct Ca<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) issuer: Issuer,
    /// The CA's public key, with which clients verify certificates.
    pub(super) public: PublicKey,
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
        let request = verified(request)?;
        clock.lap(Phase::RequestVerify);

        let key = request.public_key()?;
        let order = order(PROFILE, request.holder()?, &key, Some(days))?;
        request.check(order.profile)?;
        let tbs = self.issuer.certificate_tbs(&order, serial_number(serial))?;
        clock.lap(Phase::Policy);

        let certificate = assemble(&tbs, &self.issuer.signer, &self.engine.sign(&tbs)?)?;
        clock.lap(Phase::Sign);

        Ok(match self.pool.store(serial, &certificate, clock)? {
            Stored::Done => Some(certificate),
            Stored::Busy => None,
        })
    }
}

pub(super) fn verified(der: &[u8]) -> Result<Request, Error> {
    let (signed, request) = (Signed::parse(der)?, Request::parse(der)?);
    let wrong = |what: &str| Error::Failed(format!("a certificate request: {what}"));
    let info = request.public_key()?;
    if signed.algorithm != Signer::of(&info)?.algorithm.to_der()? {
        return Err(wrong("the algorithm of its signature is not that of its key"));
    }
    let key = SubjectPublicKeyInfoOwned::from_der(&info)?;
    let algorithm = Algorithm::of_public_key(&key).ok_or_else(|| wrong("its type of key is unknown"))?;
    if !PublicKey::parse(algorithm, &key)?.verify(signed.tbs, signed.signature) {
        return Err(wrong("its signature does not verify"));
    }
    Ok(request)
}
