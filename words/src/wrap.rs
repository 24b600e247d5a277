//! The arguments of `C_WrapKeyAuthenticated` and `C_UnwrapKeyAuthenticated`.

use crate::mechanism::Mechanism;
use crate::message::MessageParams;

/// A mechanism with a message parameter. The data length in a parameter of CCM is ignored, because
/// the key gives the length.
pub struct Authenticated<'a> {
    /// The mechanism, without its parameter.
    pub mechanism: &'a Mechanism,
    /// The message parameter. Wrapping writes the nonce and the tag into it.
    pub params: &'a mut MessageParams,
    /// The associated data.
    pub aad: &'a [u8],
}
