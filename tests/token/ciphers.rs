//! Encryption and decryption in one part through the core's API. The cases of each cipher are in
//! `conformance/src/cases/ciphers.rs`.

use crate::prelude::*;

pub fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(3).wrapping_add(1)).collect()
}

/// Encryption or decryption, so that one test covers both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Encrypt,
    Decrypt,
}

impl Way {
    /// Processes the input in one part, into a buffer of the length that the function asks for.
    pub fn whole(
        self,
        client: &Client,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let once = |out: Output<'_>| match self {
            Way::Encrypt => client.encrypt(session, data, out),
            Way::Decrypt => client.decrypt(session, data, out),
        };
        match self {
            Way::Encrypt => client.encrypt_init(session, mechanism, key)?,
            Way::Decrypt => client.decrypt_init(session, mechanism, key)?,
        }
        let mut out = vec![0; once(Output::Length)?];
        let len = once(Output::Buffer(&mut out))?;
        out.truncate(len);
        Ok(out)
    }
}
