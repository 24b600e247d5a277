//! PIN attempts: counts a failure before a PIN is tried, and takes it back if the PIN is right.
//! `attempt_lock.rs` has the lock that an attempt holds meanwhile.

use super::OpenFile;
use super::commit::Fault;
use crate::error::{Error, Result};
use crate::store::Role;

impl OpenFile {
    pub(super) fn attempt(&self, role: Role, limit: u32) -> Result<()> {
        let failures = format!("{}_failures", role.prefix());
        let sql = format!("UPDATE token SET {failures} = {failures} + 1 WHERE one = 1 AND {failures} < ?1");
        self.write_with_reserve("count an attempt", |transaction| {
            match transaction.execute(&sql, [limit])? {
                0 => Err(Fault::Refused(Error::PinLocked)),
                _ => Ok(()),
            }
        })
    }

    pub(super) fn forgive(&self, role: Role) -> Result<()> {
        let sql = format!("UPDATE token SET {}_failures = 0 WHERE one = 1", role.prefix());
        self.write_with_reserve("reset the count of wrong PINs", |transaction| {
            Ok(transaction.execute(&sql, []).map(drop)?)
        })
    }

    pub(super) fn take_back(&self, role: Role, count: u32) -> Result<()> {
        let failures = format!("{}_failures", role.prefix());
        let sql = format!("UPDATE token SET {failures} = max({failures} - ?1, 0) WHERE one = 1");
        self.write_with_reserve("correct the count of wrong PINs", |transaction| {
            Ok(transaction.execute(&sql, [count]).map(drop)?)
        })
    }
}
