//! The fifteen stages and the clock.

use std::time::{Duration, Instant};

/// A stage, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The CA signs its own certificate. Its key was made before, untimed.
    CaSelfSign,
    /// A subscriber's key pair and certificate each, parallel.
    CertGen,
    /// Certificates into the database, one transaction.
    DbInsertCerts,
    /// The stored certificates, parallel.
    CertVerify,
    /// Certificates out of the database.
    DbReadCerts,
    /// The CRL's bytes.
    CrlBuild,
    /// Its signature.
    CrlSign,
    /// The CRL into the database.
    DbInsertCrl,
    /// The stored CRL.
    CrlVerify,
    /// The CRL out of the database.
    DbReadCrl,
    /// The bytes of the OCSP responses, parallel.
    OcspBuild,
    /// Their signatures, parallel.
    OcspSign,
    /// OCSP responses into the database, one transaction.
    DbInsertOcsp,
    /// The stored OCSP responses, parallel.
    OcspVerify,
    /// OCSP responses out of the database.
    DbReadOcsp,
}

/// A row of the stage table.
pub struct StageRow {
    /// Which.
    pub stage: Stage,
    /// Its name.
    pub name: &'static str,
    /// Whether it handles an item per certificate, or one per batch.
    pub per_certificate: bool,
}

/// All stages, in the order of the table.
pub const STAGES: [StageRow; 15] = [
    once(Stage::CaSelfSign, "ca_self_sign"),
    each(Stage::CertGen, "cert_gen"),
    each(Stage::DbInsertCerts, "db_insert_certs"),
    each(Stage::CertVerify, "cert_verify"),
    each(Stage::DbReadCerts, "db_read_certs"),
    once(Stage::CrlBuild, "crl_build"),
    once(Stage::CrlSign, "crl_sign"),
    once(Stage::DbInsertCrl, "db_insert_crl"),
    once(Stage::CrlVerify, "crl_verify"),
    once(Stage::DbReadCrl, "db_read_crl"),
    each(Stage::OcspBuild, "ocsp_build"),
    each(Stage::OcspSign, "ocsp_sign"),
    each(Stage::DbInsertOcsp, "db_insert_ocsp"),
    each(Stage::OcspVerify, "ocsp_verify"),
    each(Stage::DbReadOcsp, "db_read_ocsp"),
];

const fn once(stage: Stage, name: &'static str) -> StageRow {
    StageRow { stage, name, per_certificate: false }
}

const fn each(stage: Stage, name: &'static str) -> StageRow {
    StageRow { stage, name, per_certificate: true }
}

/// How long each stage of one run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings([Duration; STAGES.len()]);

impl Timings {
    /// Does `work` and notes how long it took as `stage`.
    pub fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.0[stage as usize] = start.elapsed();
        result
    }

    /// Seconds by stage, in the order of the table.
    pub fn seconds(&self) -> [f64; STAGES.len()] {
        self.0.map(|duration| duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enumeration() {
        for (index, row) in STAGES.iter().enumerate() {
            assert_eq!(row.stage as usize, index, "{}", row.name);
        }
    }
}
