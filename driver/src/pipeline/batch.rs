//! One run through the fifteen stages, with a fresh CA and serial numbers from 1.

use der::Encode;
use jeton_ca::certificate::{Holder, Role, self_signed_tbs};
use jeton_ca::issuer::{Answer, Issuer, Order, Query, Responder, Revoked, now, ocsp_request, profile};
use jeton_pki::signer::{Signer, assemble};
use rayon::prelude::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::ext::pkix::CrlReason;

use super::database::Table;
use super::engine::Engine;
use super::parts::{InParts, each_part};
use super::verify::{Document, verify_all};
use super::{Clock, Database, STAGES, Stage, Times};
use crate::algorithm::{Key, Profile};
use crate::{Error, Result};

/// The validity of the CA's certificate in days.
const CA_DAYS: u32 = 30;
/// The validity of a CRL and of an OCSP response in days.
const STATUS_DAYS: u32 = 7;

pub(super) struct Run<'a> {
    pub module: &'a str,
    pub profile: Profile,
    /// The name of the profile.
    pub algorithm: &'a str,
    pub size: u64,
    /// The number of RSA subscriber key pairs that are generated and reused. 0 generates one for
    /// each certificate, as for the other algorithms.
    pub rsa_key_pool: u64,
    /// Called at the beginning of each stage.
    pub progress: &'a dyn Fn(&'static str),
}

/// What the stages after the CA's work with.
struct Work<'a> {
    clock: Clock,
    engine: &'a dyn Engine,
    issuer: &'a Issuer,
    database: &'a mut Database,
    batch: i64,
}

impl Run<'_> {
    /// Runs the stages. A run reads documents before it verifies them, because it verifies the
    /// bytes that the database returned. In [`STAGES`] these two stages have the opposite order.
    pub(super) fn run(&self, engine: &mut dyn Engine, database: &mut Database) -> Result<Times> {
        let result = self.stages(engine, database);
        // Destroy the keys even after a failure. The first error is the one to report.
        let cleared = engine.clear();
        let times = result?;
        cleared?;
        Ok(times)
    }

    fn stages(&self, engine: &mut dyn Engine, database: &mut Database) -> Result<Times> {
        let mut clock = Clock::default();
        let key = engine.make_ca(self.profile.ca)?.to_der()?;
        let signer = Signer::of(&key)?;
        let engine = &*engine;
        let ca = self.time(&mut clock, Stage::CaSelfSign, || {
            let holder = Holder::parse("CN=Jeton pipeline CA", &[])?;
            let tbs = self_signed_tbs(&key, &holder, &signer, Role::Authority, CA_DAYS, serial_number(0))?;
            Ok(assemble(&tbs, &signer, &engine.sign(&tbs)?)?)
        })?;
        let issuer = Issuer::new(&ca)?;
        let batch = database.start_batch(self.module, self.algorithm, self.size, &ca)?;

        let mut work = Work { clock, engine, issuer: &issuer, database, batch };
        self.certificates(&mut work)?;
        self.crl(&mut work)?;
        self.ocsp(&mut work)?;
        Ok(work.clock.times())
    }

    fn certificates(&self, work: &mut Work<'_>) -> Result<()> {
        let Work { clock, engine, issuer, database, batch } = work;
        let issued = self.time_parts(clock, Stage::CertGen, || self.issue(*engine, issuer))?;
        self.time(clock, Stage::DbInsertCerts, || database.insert(Table::Certificates, *batch, &issued))?;
        drop(issued);
        let rows =
            self.time(clock, Stage::DbReadCerts, || database.read(Table::Certificates, *batch, self.size))?;
        self.time_parts(clock, Stage::CertVerify, || {
            verify_all(*engine, &issuer.signer.algorithm.to_der()?, Document::Certificate, &rows)
        })
        .map(drop)
    }

    fn crl(&self, work: &mut Work<'_>) -> Result<()> {
        let Work { clock, engine, issuer, database, batch } = work;
        let revoked: Vec<_> = (1..=self.size).map(|serial| revoked(&serial_number(serial))).collect();
        let tbs =
            self.time(clock, Stage::CrlBuild, || Ok(issuer.crl_tbs(1, &revoked, now(), STATUS_DAYS)?))?;
        let crl =
            self.time(clock, Stage::CrlSign, || Ok(assemble(&tbs, &issuer.signer, &engine.sign(&tbs)?)?))?;
        self.time(clock, Stage::DbInsertCrl, || database.insert(Table::Crls, *batch, &[crl]))?;
        let rows = self.time(clock, Stage::DbReadCrl, || database.read(Table::Crls, *batch, 1))?;
        self.time(clock, Stage::CrlVerify, || {
            verify_all(*engine, &issuer.signer.algorithm.to_der()?, Document::Crl, &rows)
        })
        .map(drop)
    }

    fn ocsp(&self, work: &mut Work<'_>) -> Result<()> {
        let Work { clock, engine, issuer, database, batch } = work;
        let responder = Responder::new(issuer)?;
        let request = |serial| Ok(ocsp_request(issuer, &serial_number(serial))?);
        let requests = (1..=self.size).map(request).collect::<Result<Vec<_>>>()?;
        let status = |serial: &[u8]| Ok(Answer::Revoked(revoked(serial)));
        let built: Vec<Vec<u8>> = self.time(clock, Stage::OcspBuild, || {
            let responses = requests
                .par_iter()
                .map(|one| Ok(responder.response_tbs(&Query::parse(one)?, STATUS_DAYS, status)?.tbs));
            responses.collect::<Result<_>>()
        })?;
        drop(requests);
        let signed = self.time_parts(clock, Stage::OcspSign, || {
            each_part(&built, |part| {
                let signed = part.iter().zip(engine.sign_all(part)?);
                signed.map(|(tbs, signature)| Ok(responder.assemble(tbs, &signature)?)).collect()
            })
        })?;
        drop(built);
        self.time(clock, Stage::DbInsertOcsp, || database.insert(Table::OcspResponses, *batch, &signed))?;
        drop(signed);
        let rows =
            self.time(clock, Stage::DbReadOcsp, || database.read(Table::OcspResponses, *batch, self.size))?;
        self.time_parts(clock, Stage::OcspVerify, || {
            verify_all(*engine, &issuer.signer.algorithm.to_der()?, Document::OcspResponse, &rows)
        })
        .map(drop)
    }

    /// Generates the subscribers' key pairs, and issues a certificate for each serial number.
    fn issue(&self, engine: &dyn Engine, issuer: &Issuer) -> Result<InParts<Vec<u8>>> {
        let subscriber = self.profile.subscriber;
        let shared = if let Key::Rsa(_) = subscriber.key { self.rsa_key_pool.min(self.size) } else { 0 };
        let pool = (0..shared).into_par_iter().map(|_| engine.make_subscriber(subscriber));
        let pool = pool.collect::<Result<Vec<_>, _>>()?;
        let prepare = |serial: &u64| {
            let key = match pool.as_slice() {
                [] => engine.make_subscriber(subscriber)?,
                pool => pool[*serial as usize % pool.len()].clone(),
            };
            leaf_tbs(issuer, *serial, &key)
        };
        each_part(&(1..=self.size).collect::<Vec<_>>(), |part| {
            let part = part.iter().map(prepare).collect::<Result<Vec<_>>>()?;
            let signed = part.iter().zip(engine.sign_all(&part)?);
            signed.map(|(tbs, signature)| Ok(assemble(tbs, &issuer.signer, &signature)?)).collect()
        })
    }

    fn time_parts<T>(
        &self,
        clock: &mut Clock,
        stage: Stage,
        work: impl FnOnce() -> Result<InParts<T>>,
    ) -> Result<Vec<T>> {
        let InParts { results, seconds } = self.time(clock, stage, work)?;
        clock.divide(stage, seconds);
        Ok(results)
    }

    fn time<T>(&self, clock: &mut Clock, stage: Stage, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let name = STAGES[stage as usize].name;
        (self.progress)(name);
        clock.time(stage, work).map_err(|source| match source {
            Error::NotAvailable(_) => source,
            source => Error::Stage { stage: name, source: Box::new(source) },
        })
    }
}

/// Returns a subscriber's certificate as bytes to sign.
fn leaf_tbs(issuer: &Issuer, serial: u64, key: &SubjectPublicKeyInfoOwned) -> Result<Vec<u8>> {
    let profile = profile("tls-client").ok_or_else(|| Error::Failed("no profile tls-client".to_owned()))?;
    let order = Order {
        profile,
        holder: Holder::parse(&format!("CN=Subscriber {serial}"), &[])?,
        public_key: &key.to_der()?,
        days: None,
        path_length: 0,
        permitted: Vec::new(),
        excluded: Vec::new(),
        crl_url: None,
        ocsp_url: None,
    };
    Ok(issuer.certificate_tbs(&order, serial_number(serial))?)
}

/// Returns a serial number of 16 bytes, the length of those that `jeton cert issue` draws.
fn serial_number(serial: u64) -> [u8; 16] {
    (0x40 << 120 | u128::from(serial)).to_be_bytes()
}

/// Returns the entry of a certificate that is revoked now.
fn revoked(serial: &[u8]) -> Revoked {
    let time = now();
    Revoked { serial: serial.to_vec(), time, reason: CrlReason::Unspecified }
}
