//! Where a token lives between runs. Records are sealed before they come here: a store sees no secret.
//!
//! A store is shared by several processes; it is asked for what changed, never told to forget. Batches, a change
//! counter and no assumption of a local file leave room for a database server.

use crate::error::Result;

pub mod counter;
pub mod index;
mod probe;
pub mod seal;
pub mod sqlite;
pub mod summary;
pub mod trial;

use trial::Trial;

/// One token's data.
///
/// Of an object it keeps a row, which is small and read for all objects at once, and a record, which is read when the
/// object is used.
pub trait Store: Send + Sync {
    /// What is known of the token.
    fn header(&self) -> Result<Header>;

    /// Starts the token anew: this header, no objects.
    fn initialize(&self, header: &Header) -> Result<()>;

    /// Sets a PIN record in the place of `old`, whatever stands there without, and forgives the failures of that PIN.
    /// A change of the store: `summarise` makes the summary after. The state before; `None` where another record stands
    /// there by now.
    fn set_pin(
        &self,
        role: Role,
        old: Option<&[u8]>,
        record: &[u8],
        summarise: &dyn Fn(&Snapshot) -> Result<Vec<u8>>,
    ) -> Result<Option<Change>>;

    /// Held while a PIN of this token is tried; `alone` waits until no other process and no other thread tries one.
    fn trial(&self, alone: bool) -> Result<Trial>;

    /// Counts a failure *before* a PIN is tried, so that a killed process cannot try for free; `PinLocked` where
    /// the limit is reached already. [`forgive`](Self::forgive) takes it back.
    fn attempt(&self, role: Role, limit: u32) -> Result<()>;

    /// Sets the failures of a PIN back to none.
    fn forgive(&self, role: Role) -> Result<()>;

    /// Every row, in order of their numbers, and the state that they are of.
    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot>;

    /// The record of a row, if it is there.
    fn record(&self, id: i64) -> Result<Option<Vec<u8>>>;

    /// Writes all or nothing; what it acknowledged is there after any crash. A write whose row is not as it expects is
    /// left out.
    fn commit(&self, writes: &[Write<'_>], summarise: &Summarise<'_>) -> Result<Committed>;

    /// Whether there was a commit since that state. Cheap where there was none at all since it was last asked.
    fn changed_since(&self, seen: Change) -> Result<bool>;
}

/// Makes the summary after a commit from the state before it and from which of its writes were done.
pub type Summarise<'a> = dyn Fn(&Snapshot, &[bool]) -> Result<Vec<u8>> + 'a;

/// A state of the store; later states are greater. A file may say any number: at the end of them they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub i64);

impl Change {
    /// A token that is initialised anew counts on from the next multiple of this.
    const LIFE: i64 = 1 << 40;

    /// The state after the next commit.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// How often the token was initialised anew.
    pub const fn life(self) -> i64 {
        self.0 / Self::LIFE
    }

    /// The first state after it is initialised anew.
    pub const fn next_life(self) -> Self {
        Self((self.life() + 1).saturating_mul(Self::LIFE))
    }
}

/// What the rows are of.
pub struct Snapshot {
    /// The state.
    pub change: Change,
    /// The sealed [`summary::Summary`].
    pub summary: Vec<u8>,
}

/// What a commit did.
pub struct Committed {
    /// The state before.
    pub before: Change,
    /// Which of the writes were done.
    pub applied: Vec<bool>,
}

/// The last 16 bytes of an object's AEAD: another one with every write of it.
pub type Tag = [u8; 16];

/// An object's row.
pub struct Row {
    /// Its number.
    pub id: i64,
    /// Whether its record is encrypted.
    pub private: bool,
    /// The tag of its record.
    pub tag: Tag,
    /// The names that it is found by.
    pub names: index::Names,
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
    /// The state that it is of.
    pub change: Change,
    /// The summary of no rows, for a token that is started anew; empty in a header that was read.
    pub summary: Vec<u8>,
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

/// One write of a batch.
pub enum Write<'a> {
    /// A new object.
    Insert(&'a Row, &'a [u8]),
    /// An object in place of the older one, which has that tag.
    Replace(Tag, &'a Row, &'a [u8]),
    /// No more object of that number and tag.
    Delete(i64, Tag),
}
