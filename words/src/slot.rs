//! Slots and tokens (PKCS#11 3.2, "Slot and token management functions").

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::bounded;

/// Whether `C_WaitForSlotEvent` waits for an event (`CKF_DONT_BLOCK`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// The call waits until a token appears.
    ForEvent,
    /// The call returns at once.
    Never,
}

/// The result of `C_GetSlotInfo`.
#[derive(Serialize, Deserialize)]
pub struct SlotInfo {
    /// The description, of any length. The C interface pads and cuts it.
    #[serde(deserialize_with = "bounded::text")]
    pub description: String,
    /// The name of the manufacturer.
    #[serde(deserialize_with = "bounded::text")]
    pub manufacturer: Cow<'static, str>,
    /// Always true. A slot without an initialised token has one that can be initialised.
    pub token_present: bool,
    /// Whether the slot claims to be a reader of removable devices.
    pub removable: bool,
    /// The hardware version, major and minor.
    pub hardware: (u8, u8),
    /// The firmware version, major and minor.
    pub firmware: (u8, u8),
}

/// The result of `C_GetTokenInfo`.
#[derive(Serialize, Deserialize)]
pub struct TokenInfo {
    /// The label, padded with blanks.
    pub label: [u8; 32],
    /// The name of the manufacturer.
    #[serde(deserialize_with = "bounded::text")]
    pub manufacturer: Cow<'static, str>,
    /// The name of the model.
    #[serde(deserialize_with = "bounded::text")]
    pub model: Cow<'static, str>,
    /// The serial number, at most sixteen bytes.
    #[serde(deserialize_with = "bounded::text")]
    pub serial: String,
    /// `CKF_*`.
    pub flags: u64,
    /// The maximum number of sessions.
    pub max_sessions: u64,
    /// The number of open sessions.
    pub sessions: u64,
    /// The maximum number of read/write sessions.
    pub max_rw_sessions: u64,
    /// The number of open read/write sessions.
    pub rw_sessions: u64,
    /// The maximum length of a PIN in bytes.
    pub max_pin_len: u64,
    /// The minimum length of a PIN in bytes.
    pub min_pin_len: u64,
    /// The hardware version, major and minor.
    pub hardware: (u8, u8),
    /// The firmware version, major and minor.
    pub firmware: (u8, u8),
    /// The time in UTC: `YYYYMMDDhhmmss00`.
    pub utc_time: [u8; 16],
}

/// The result of `C_GetMechanismInfo`.
#[derive(Serialize, Deserialize)]
pub struct MechanismInfo {
    /// The minimum key size, in the unit of the mechanism.
    pub min: u64,
    /// The maximum key size, in the unit of the mechanism.
    pub max: u64,
    /// `CKF_*`.
    pub flags: u64,
}
