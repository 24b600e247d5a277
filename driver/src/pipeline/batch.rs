//! One run through the fifteen stages, with a fresh CA and serial numbers from 1.

use jeton_pki::{Authority, Key, Profile};
use rayon::prelude::*;

use super::database::{Database, Table};
use super::engine::{Engine, Subscriber};
use super::keep::Sample;
use super::parts::{InParts, in_parts};
use super::stage::{Clock, STAGES, Stage, Times};
use super::verify::verify_all;
use crate::Error;
use crate::error::Document;

/// The parameters of a run.
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

impl Run<'_> {
    /// Runs the stages. A run reads documents before it verifies them, because it verifies the
    /// bytes that the database returned. In [`STAGES`] these two stages have the opposite order.
    pub(super) fn run(
        &self,
        engine: &mut dyn Engine,
        database: &mut Database,
    ) -> Result<(Times, Sample), Error> {
        let result = self.stages(engine, database);
        // Destroy the keys even after a failure. The first error is the one to report.
        let cleared = engine.clear();
        let done = result?;
        cleared?;
        Ok(done)
    }

    fn stages(&self, engine: &mut dyn Engine, database: &mut Database) -> Result<(Times, Sample), Error> {
        let mut clock = Clock::default();
        let authority = Authority::new(self.profile.ca, engine.make_ca(self.profile.ca)?)?;
        let engine = &*engine;
        let ca = self.time(&mut clock, Stage::CaSelfSign, || {
            let tbs = authority.certificate_tbs()?;
            Ok(authority.assemble(&tbs, &engine.sign(&tbs)?)?)
        })?;
        let batch = database.start_batch(self.module, self.algorithm, self.size, &ca)?;

        let leaf = self.certificates(&mut clock, engine, &authority, database, batch)?;
        let crl = self.crl(&mut clock, engine, &authority, database, batch)?;
        let ocsp = self.ocsp(&mut clock, engine, &authority, database, batch)?;
        Ok((clock.times(), Sample { ca, leaf, crl, ocsp }))
    }

    fn certificates(
        &self,
        clock: &mut Clock,
        engine: &dyn Engine,
        authority: &Authority,
        database: &mut Database,
        batch: i64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let issued = self.time_parts(clock, Stage::CertGen, || self.issue(engine, authority))?;
        self.time(clock, Stage::DbInsertCerts, || database.insert(Table::Certificates, batch, &issued))?;
        drop(issued);
        let rows = self.time(clock, Stage::DbReadCerts, || database.read(Table::Certificates, batch))?;
        self.time_parts(clock, Stage::CertVerify, || {
            verify_all(engine, self.profile.ca, Document::Certificate, &rows)
        })?;
        Ok(rows.into_iter().next().map(|(_, der)| der))
    }

    fn crl(
        &self,
        clock: &mut Clock,
        engine: &dyn Engine,
        authority: &Authority,
        database: &mut Database,
        batch: i64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let tbs = self.time(clock, Stage::CrlBuild, || Ok(authority.crl_tbs(1, self.size)?))?;
        let crl = self.time(clock, Stage::CrlSign, || Ok(authority.assemble(&tbs, &engine.sign(&tbs)?)?))?;
        self.time(clock, Stage::DbInsertCrl, || database.insert(Table::Crls, batch, &[crl]))?;
        let rows = self.time(clock, Stage::DbReadCrl, || database.read(Table::Crls, batch))?;
        self.time(clock, Stage::CrlVerify, || verify_all(engine, self.profile.ca, Document::Crl, &rows))?;
        Ok(rows.into_iter().next().map(|(_, der)| der))
    }

    fn ocsp(
        &self,
        clock: &mut Clock,
        engine: &dyn Engine,
        authority: &Authority,
        database: &mut Database,
        batch: i64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let serials = (1..=self.size).into_par_iter();
        let built: Vec<Vec<u8>> = self.time(clock, Stage::OcspBuild, || {
            serials.map(|serial| Ok(authority.ocsp_tbs(serial)?)).collect::<Result<_, Error>>()
        })?;
        let signed = self.time_parts(clock, Stage::OcspSign, || {
            in_parts(&built, |tbs| Ok(authority.assemble_ocsp(tbs, &engine.sign(tbs)?)?))
        })?;
        drop(built);
        self.time(clock, Stage::DbInsertOcsp, || database.insert(Table::OcspResponses, batch, &signed))?;
        drop(signed);
        let rows = self.time(clock, Stage::DbReadOcsp, || database.read(Table::OcspResponses, batch))?;
        self.time_parts(clock, Stage::OcspVerify, || {
            verify_all(engine, self.profile.ca, Document::OcspResponse, &rows)
        })?;
        Ok(rows.into_iter().next().map(|(_, der)| der))
    }

    /// Generates the subscribers' key pairs, and issues a certificate for each serial number.
    fn issue(&self, engine: &dyn Engine, authority: &Authority) -> Result<InParts<Vec<u8>>, Error> {
        let subscriber = self.profile.subscriber;
        let pool = self.key_pool(engine)?;
        let issue = |serial: &u64| {
            let key = match pool.as_slice() {
                [] => engine.make_subscriber(subscriber)?.public_key,
                pool => pool[*serial as usize % pool.len()].public_key.clone(),
            };
            let tbs = authority.leaf_tbs(*serial, key)?;
            Ok(authority.assemble(&tbs, &engine.sign(&tbs)?)?)
        };
        in_parts(&(1..=self.size).collect::<Vec<_>>(), issue)
    }

    fn key_pool(&self, engine: &dyn Engine) -> Result<Vec<Subscriber>, Error> {
        let subscriber = self.profile.subscriber;
        let wanted = match subscriber.key {
            Key::Rsa(_) => self.rsa_key_pool.min(self.size),
            _ => 0,
        };
        (0..wanted).into_par_iter().map(|_| engine.make_subscriber(subscriber)).collect()
    }

    /// Like `time`, for a stage that is timed in parts.
    fn time_parts<T>(
        &self,
        clock: &mut Clock,
        stage: Stage,
        work: impl FnOnce() -> Result<InParts<T>, Error>,
    ) -> Result<Vec<T>, Error> {
        let InParts { results, seconds } = self.time(clock, stage, work)?;
        clock.divide(stage, seconds);
        Ok(results)
    }

    fn time<T>(
        &self,
        clock: &mut Clock,
        stage: Stage,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let name = STAGES[stage as usize].name;
        (self.progress)(name);
        clock.time(stage, work).map_err(|source| match source {
            Error::NotAvailable(_) => source,
            source => Error::Stage { stage: name, source: Box::new(source) },
        })
    }
}
