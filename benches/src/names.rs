//! The names of the rows and operations that the measurements and the report share. Criterion's
//! data and the JSON files are stored under these names.

/// The row of our module as users get it.
pub const JETON: &str = "jeton";
pub const NULL: &str = "jeton-null";
/// The peer with which the tables compare the speed of our module.
pub const SOFTHSM: &str = "softhsm2";
pub const BASELINE: &str = "floor";
/// The baseline again, after the other rows. If the two times of the baseline differ, the load of
/// the machine changed meanwhile.
pub const BASELINE_AGAIN: &str = "floor-again";
/// The signature whose number of instructions has a target.
pub const SIGNATURE: &str = "P-256 sign";

pub fn shown(row: &str) -> &str {
    match row {
        BASELINE => "baseline",
        BASELINE_AGAIN => "baseline-again",
        other => other,
    }
}
