//! The fifteen stages, and their clock.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// A stage. The variants have the order of [`STAGES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The CA signs its own certificate. Its key was generated before, outside the measurement.
    CaSelfSign,
    /// Generate a key pair and sign a certificate for each subscriber, in parallel.
    CertGen,
    DbInsertCerts,
    /// Verify the stored certificates, in parallel.
    CertVerify,
    DbReadCerts,
    CrlBuild,
    CrlSign,
    DbInsertCrl,
    CrlVerify,
    DbReadCrl,
    /// Build the bytes of the OCSP responses, in parallel.
    OcspBuild,
    /// Sign the OCSP responses, in parallel.
    OcspSign,
    /// Insert the OCSP responses into the database in one transaction.
    DbInsertOcsp,
    /// Verify the stored OCSP responses, in parallel.
    OcspVerify,
    DbReadOcsp,
}

pub struct StageRow {
    pub stage: Stage,
    pub name: &'static str,
    /// What the stage handles.
    pub items: Items,
    /// Where the stage works.
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    Certificates,
    /// One item for each batch.
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Module,
    /// It never calls the module, so its time says nothing about the module.
    Tool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// The seconds from its beginning to its end.
    pub seconds: f64,
    /// The seconds of its parts, divided by the number of threads. Empty if it is not timed in
    /// parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<f64>,
}

/// The times of one run: of each stage, in the order of [`STAGES`].
pub type Times = [StageTimes; STAGES.len()];

pub const STAGES: [StageRow; 15] = [
    row(Stage::CaSelfSign, "ca_self_sign", Items::One, Place::Module),
    row(Stage::CertGen, "cert_gen", Items::Certificates, Place::Module),
    row(Stage::DbInsertCerts, "db_insert_certs", Items::Certificates, Place::Tool),
    row(Stage::CertVerify, "cert_verify", Items::Certificates, Place::Module),
    row(Stage::DbReadCerts, "db_read_certs", Items::Certificates, Place::Tool),
    row(Stage::CrlBuild, "crl_build", Items::One, Place::Tool),
    row(Stage::CrlSign, "crl_sign", Items::One, Place::Module),
    row(Stage::DbInsertCrl, "db_insert_crl", Items::One, Place::Tool),
    row(Stage::CrlVerify, "crl_verify", Items::One, Place::Module),
    row(Stage::DbReadCrl, "db_read_crl", Items::One, Place::Tool),
    row(Stage::OcspBuild, "ocsp_build", Items::Certificates, Place::Tool),
    row(Stage::OcspSign, "ocsp_sign", Items::Certificates, Place::Module),
    row(Stage::DbInsertOcsp, "db_insert_ocsp", Items::Certificates, Place::Tool),
    row(Stage::OcspVerify, "ocsp_verify", Items::Certificates, Place::Module),
    row(Stage::DbReadOcsp, "db_read_ocsp", Items::Certificates, Place::Tool),
];

const fn row(stage: Stage, name: &'static str, items: Items, place: Place) -> StageRow {
    StageRow { stage, name, items, place }
}

#[derive(Debug, Default)]
pub struct Clock(Times);

impl Clock {
    pub fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.0[stage as usize].seconds = start.elapsed().as_secs_f64();
        result
    }

    pub fn divide(&mut self, stage: Stage, parts: Vec<f64>) {
        self.0[stage as usize].parts = parts;
    }

    pub fn times(self) -> Times {
        self.0
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
