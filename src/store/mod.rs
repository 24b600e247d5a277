//! Where a token lives between runs. Records are sealed before they come here: a store sees no secret.
//!
//! A store is shared by several processes; it is asked for what changed, never told to forget. Batches, a change
//! counter and no assumption of a local file leave room for a database server.

use crate::error::Result;

pub mod seal;
pub mod sqlite;

/// One token's data.
pub trait Store: Send + Sync {
    /// What is known of the token.
    fn header(&self) -> Result<Header>;

    /// Starts the token anew: this header, no objects.
    fn initialize(&self, header: &Header) -> Result<()>;

    /// Sets a PIN record and forgives the failures of that PIN. `DeviceRemoved` as for [`commit`](Self::commit).
    fn set_pin(&self, role: Role, record: &[u8]) -> Result<()>;

    /// Counts a failure *before* a PIN is tried, so that a killed process cannot try for free; `PinLocked` where
    /// the limit is reached already. [`forgive`](Self::forgive) takes it back.
    fn attempt(&self, role: Role, limit: u32) -> Result<()>;

    /// Sets the failures of a PIN back to none.
    fn forgive(&self, role: Role) -> Result<()>;

    /// Every record, and the state they are of.
    fn load(&self) -> Result<(Vec<Stored>, Change)>;

    /// Writes all or nothing; what it acknowledged is there after any crash. `DeviceRemoved` where the token was
    /// initialised anew since the caller last asked for its state: the records are of a key that is no more.
    fn commit(&self, writes: &[Write<'_>]) -> Result<()>;

    /// What changed since `seen`, where another process may have written; `None` where none has.
    fn changed_since(&self, seen: Change) -> Result<Option<Delta>>;
}

/// A state of the store; later states are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub i64);

impl Change {
    /// A token that is initialised anew counts on from the next multiple of this.
    pub const LIFE: i64 = 1 << 40;

    /// How often the token was initialised.
    pub const fn life(self) -> i64 {
        self.0 / Self::LIFE
    }
}

/// What is known of a token besides its objects.
#[derive(Clone)]
pub struct Header {
    /// Sixteen hexadecimal digits.
    pub serial: String,
    /// The slot that the token takes.
    pub slot: u64,
    /// Blank-padded UTF-8.
    pub label: [u8; 32],
    /// The token key under the SO PIN.
    pub so: PinState,
    /// The token key under the user PIN; no record before `C_InitPIN`.
    pub user: PinState,
}

/// A PIN as it is stored.
#[derive(Clone, Default)]
pub struct PinState {
    /// Empty where the PIN was never set.
    pub record: Vec<u8>,
    /// Wrong PINs in a row.
    pub failures: u32,
}

impl Header {
    /// The PIN of that role.
    pub fn pin(&self, role: Role) -> &PinState {
        match role {
            Role::Officer => &self.so,
            Role::User => &self.user,
        }
    }
}

/// Whose PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The security officer.
    Officer,
    /// The normal user.
    User,
}

/// A record of the store.
pub struct Stored {
    /// Its number.
    pub id: i64,
    /// The sealed object.
    pub record: Vec<u8>,
}

/// One write of a batch.
pub enum Write<'a> {
    /// A new record.
    Insert(i64, &'a [u8]),
    /// A record in place of the older one; `ObjectHandleInvalid` where that is gone.
    Replace(i64, &'a [u8]),
    /// No more record; `ObjectHandleInvalid` where it is gone already.
    Delete(i64),
}

/// What other processes did.
pub struct Delta {
    /// Every record that there is, by number, sorted.
    pub present: Vec<i64>,
    /// The records written since.
    pub written: Vec<Stored>,
    /// The state now.
    pub now: Change,
}
