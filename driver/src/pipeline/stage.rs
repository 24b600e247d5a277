//! The fifteen stages, and their clock.

use std::time::{Duration, Instant};

/// A stage, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The CA signs its own certificate. Its key was generated before, outside the measurement.
    CaSelfSign,
    /// Generate a key pair and sign a certificate for each subscriber, in parallel.
    CertGen,
    /// Insert the certificates into the database in one transaction.
    DbInsertCerts,
    /// Verify the stored certificates, in parallel.
    CertVerify,
    /// Read the certificates from the database.
    DbReadCerts,
    /// Build the bytes of the CRL.
    CrlBuild,
    /// Sign the CRL.
    CrlSign,
    /// Insert the CRL into the database.
    DbInsertCrl,
    /// Verify the stored CRL.
    CrlVerify,
    /// Read the CRL from the database.
    DbReadCrl,
    /// Build the bytes of the OCSP responses, in parallel.
    OcspBuild,
    /// Sign the OCSP responses, in parallel.
    OcspSign,
    /// Insert the OCSP responses into the database in one transaction.
    DbInsertOcsp,
    /// Verify the stored OCSP responses, in parallel.
    OcspVerify,
    /// Read the OCSP responses from the database.
    DbReadOcsp,
}

/// A row of the stage table.
pub struct StageRow {
    /// The stage.
    pub stage: Stage,
    /// Its name.
    pub name: &'static str,
    /// Whether the stage handles one item for each certificate, or one for each batch.
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

/// The time of each stage of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings([Duration; STAGES.len()]);

impl Timings {
    /// Runs `work` and records its time as that of `stage`.
    pub fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.0[stage as usize] = start.elapsed();
        result
    }

    /// Returns the seconds of each stage, in the order of the table.
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
