//! The memory that an operation keeps between the calls of an application, taken from the quota of
//! the application. Without a quota nothing is counted.

use crate::error::{Error, Result};
use crate::quota::Permit;
use crate::token::ClientToken;

/// The bytes that an engine counts as, with its state and the scheduled key. Parsed keys belong to
/// their objects.
const ENGINE: usize = 2 << 10;

#[derive(Default)]
pub(super) struct Memory(Option<Counted>);

struct Counted {
    permit: Permit,
    /// The bytes of what the last `Init` function passed: a parameter in two copies, or a
    /// signature.
    passed: usize,
    /// The number of bytes of the message that went in and did not come out.
    message: usize,
    /// The bytes that the buffer of the message counts as.
    buffer: usize,
}

impl Memory {
    /// Takes the memory for an engine, which has `parameter` bytes of a parameter and `more` bytes
    /// besides. Fails with `DeviceMemory` if the quota does not have it.
    pub(super) fn new(token: &ClientToken, parameter: usize, more: usize) -> Result<Self> {
        // The operation and its engine each have a copy of the parameter.
        let passed = 2 * parameter;
        let permit = token.hold(ENGINE + more + passed)?;
        Ok(Self(permit.map(|permit| Counted { permit, passed, message: 0, buffer: 0 })))
    }

    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the memory for what an `Init` function or a message will pass to the engine, which may
    /// also keep what it has.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<()> {
        let passed = self.0.as_ref().map_or(0, |counted| counted.passed);
        self.pass(bytes.max(passed))
    }

    /// Takes the memory for what an `Init` function has passed to the engine in place of what the
    /// engine had.
    pub(super) fn pass(&mut self, bytes: usize) -> Result<()> {
        let Some(counted) = &mut self.0 else { return Ok(()) };
        counted.resize(counted.passed, bytes)?;
        counted.passed = bytes;
        Ok(())
    }

    /// Takes the memory for a part of the message, of which the engine returns `output` bytes.
    pub(super) fn hold(&mut self, input: usize, output: usize) -> Result<()> {
        let Some(counted) = &mut self.0 else { return Ok(()) };
        let message = counted.message.saturating_add(input).saturating_sub(output);
        // A buffer that grows has room for twice its content.
        let buffer = message.saturating_mul(2).max(counted.buffer);
        counted.resize(counted.buffer, buffer)?;
        (counted.message, counted.buffer) = (message, buffer);
        Ok(())
    }

    /// Gives back the memory of the message. A buffer that stays for the next message stays taken.
    #[inline]
    pub(super) fn end_message(&mut self) {
        let Some(counted) = &mut self.0 else { return };
        counted.message = 0;
        if counted.buffer > jeton_secret::KEPT {
            counted.permit.shrink(counted.permit.bytes() - counted.buffer);
            counted.buffer = 0;
        }
    }

    /// Returns the number of message bytes that it counts.
    pub(super) fn message(&self) -> usize {
        self.0.as_ref().map_or(0, |counted| counted.message)
    }

    /// Takes the memory for a copy of the engine and the message.
    pub(super) fn copy(&self) -> Result<Option<Permit>> {
        let Some(Counted { permit, message, buffer, .. }) = &self.0 else { return Ok(None) };
        let bytes = permit.bytes() - buffer + message;
        permit.quota().try_take(bytes).map(Some).ok_or(Error::DeviceMemory)
    }
}

impl Counted {
    fn resize(&mut self, old: usize, new: usize) -> Result<()> {
        if new <= old {
            self.permit.shrink(self.permit.bytes() - (old - new));
            return Ok(());
        }
        if self.permit.try_grow(new - old) { Ok(()) } else { Err(Error::DeviceMemory) }
    }
}
