//! PIN attempts, which all hosts count together.
//!
//! An attempt is a row of the table `attempt` while its PIN is tried. An attempt that finds the
//! limit reached waits until no other attempt has a row, because other attempts may have the right
//! PIN. No lock of the server is held meanwhile. The row of a process that was killed expires.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::debug;

use super::Database;
use super::failure::Outcome;
use super::transaction::execute;
use crate::error::{Error, Result, require};
use crate::file_lock;
use crate::store::{Role, seal};

/// The pause between two looks for running attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// An attempt that has a row. Dropping it deletes the row.
pub(super) struct Running {
    database: Arc<Database>,
    id: i64,
}

/// The counts after a try to begin an attempt.
struct Tried {
    begun: bool,
    /// The number of other attempts that run.
    others: i64,
}

impl Running {
    /// Counts a failure and begins an attempt. Waits at the limit while other attempts run. Fails
    /// with `PinLocked` if no other attempt runs, or after `file_lock::LIMIT`.
    pub(super) fn begin(database: &Arc<Database>, serial: &str, role: Role, limit: u32) -> Result<Self> {
        let id = i64::from_le_bytes(seal::random()?);
        let end = Instant::now() + file_lock::LIMIT;
        let mut alone = 0;
        loop {
            let tried =
                database.run("count an attempt", async |client| begin(client, serial, role, limit, id).await);
            // A full disk must not make the attempt uncounted.
            let tried = tried.map_err(|_| Error::DeviceError)?;
            if tried.begun {
                return Ok(Self { database: Arc::clone(database), id });
            }
            alone = if tried.others == 0 { alone + 1 } else { 0 };
            // An attempt may have ended between the two counts of the first look.
            require(alone != 2 && Instant::now() < end, Error::PinLocked)?;
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let sql = "DELETE FROM attempt WHERE id = $1";
        let work = async |client: &Client| execute(client, sql, &[(&self.id, Type::INT8)]).await;
        if self.database.run("end an attempt", work).is_err() {
            debug!("the row of a PIN attempt stays until it expires");
        }
    }
}

async fn begin(client: &Client, serial: &str, role: Role, limit: u32, id: i64) -> Outcome<Tried> {
    let failures = format!("{}_failures", role.prefix());
    // The interval is longer than an attempt: by default Argon2id takes a second at most. An
    // attempt that waits has no row.
    let sql = format!(
        "WITH counted AS (
             UPDATE token SET {failures} = {failures} + 1
             WHERE serial = $1 AND {failures} < $2 RETURNING serial
         ), expired AS (
             DELETE FROM attempt WHERE expires < clock_timestamp()
         ), begun AS (
             INSERT INTO attempt
             SELECT $3, serial, $4, clock_timestamp() + interval '30 seconds' FROM counted RETURNING id
         )
         SELECT (SELECT count(*) FROM begun), count(*) FROM attempt
         WHERE serial = $1 AND role = $4 AND expires > clock_timestamp()"
    );
    let (limit, role) = (i64::from(limit), role as i16);
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
        [(&serial, Type::TEXT), (&limit, Type::INT8), (&id, Type::INT8), (&role, Type::INT2)];
    let found = client.query_typed_one(&sql, &values).await?;
    Ok(Tried { begun: found.try_get::<_, i64>(0)? != 0, others: found.try_get(1)? })
}
