//! Converts rows of the database to the types of the store.

use tokio_postgres::Row as Columns;

use super::failure::{Fault, Outcome};
use crate::store::seal::index::decode;
use crate::store::{Change, Header, PinState, Row, Snapshot, is_serial};

/// The columns of a header, in the order in which `header` reads them.
pub(super) const HEADER: &str =
    "SELECT serial, slot, label, so_pin, so_failures, user_pin, user_failures, change FROM token";

/// Reads the header of a token.
pub(super) fn header(columns: &Columns) -> Outcome<Header> {
    let label: Vec<u8> = columns.try_get(2)?;
    let pin = |first: usize| -> Outcome<PinState> {
        let failures: i64 = columns.try_get(first + 1)?;
        // A number that does not fit locks the PIN.
        Ok(PinState {
            record: columns.try_get(first)?,
            failures: u32::try_from(failures).unwrap_or(u32::MAX),
        })
    };
    let (serial, slot): (String, i64) = (columns.try_get(0)?, columns.try_get(1)?);
    if !is_serial(serial.as_bytes()) {
        return Err(Fault::malformed("a serial number"));
    }
    Ok(Header {
        serial,
        slot: slot.unsigned_abs(),
        label: label.try_into().map_err(|_| Fault::malformed("a label"))?,
        so: pin(3)?,
        user: pin(5)?,
        change: Change(columns.try_get(7)?),
        summary: Vec::new(),
    })
}

/// Reads the change number and the summary.
pub(super) fn snapshot(columns: &Columns) -> Outcome<Snapshot> {
    Ok(Snapshot { change: Change(columns.try_get(0)?), summary: columns.try_get(1)? })
}

/// Reads a row: number, `CKA_PRIVATE`, tag and index keys.
pub(super) fn row(columns: &Columns) -> Outcome<Row> {
    let tag: &[u8] = columns.try_get(2)?;
    let names: &[u8] = columns.try_get(3)?;
    Ok(Row {
        id: columns.try_get(0)?,
        private: columns.try_get(1)?,
        tag: tag.try_into().map_err(|_| Fault::malformed("the tag of an object"))?,
        index_keys: decode(names),
    })
}
