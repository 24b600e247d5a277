//! A stream from a server, which is not trusted: the client library would keep a message of any
//! length and any number of parameters in memory, and send the password in clear if the server asks
//! for it. The guard reads the header of each message, and ends the connection before that.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::store::seal::record::LONGEST_RECORD;

/// The longest message: a row with a record.
const LONGEST_MESSAGE: usize = LONGEST_RECORD + (1 << 20);
/// The largest number of bytes that a server may use for its parameters during a connection.
const LONGEST_PARAMETERS: usize = 4 << 20;

/// The first bytes of a message: a tag and the length, which does not count the tag.
const HEADER: usize = 5;
/// The number of first bytes that are looked at. A request for authentication has its kind there.
const KIND: usize = 9;
/// The tags of the messages that are looked at.
const AUTHENTICATION: u8 = b'R';
const PARAMETER: u8 = b'S';
/// The requests for a password in clear, and for one that is hashed with MD5.
const CLEAR: u32 = 3;
const MD5: u32 = 5;

/// A stream after TLS, or without it.
pub(super) struct Guarded<S> {
    stream: S,
    messages: Messages,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, messages: Messages::default() }
    }
}

/// What was read of the current message, and of all parameters.
#[derive(Default)]
struct Messages {
    first: [u8; KIND],
    /// The number of these bytes that were read.
    len: usize,
    /// The number of bytes of the message that follow.
    rest: usize,
    parameters: usize,
}

impl Messages {
    fn read(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let [next, others @ ..] = bytes {
            if self.rest > 0 && !self.wants_more() {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
            } else {
                self.first[self.len] = *next;
                self.len += 1;
                self.rest = self.rest.saturating_sub(1);
                bytes = others;
                match self.len {
                    HEADER => self.header()?,
                    KIND => self.authentication()?,
                    _ => {}
                }
            }
            if self.len >= HEADER && self.rest == 0 {
                self.len = 0;
            }
        }
        Ok(())
    }

    /// Returns whether the next byte is one of those that are looked at.
    fn wants_more(&self) -> bool {
        self.len < HEADER || (self.first[0] == AUTHENTICATION && self.len < KIND)
    }

    fn number(&self, at: usize) -> usize {
        let bytes = [0, 1, 2, 3].map(|byte| self.first[at + byte]);
        u32::from_be_bytes(bytes) as usize
    }

    fn header(&mut self) -> Result<()> {
        let len = self.number(1);
        self.rest = len.saturating_sub(HEADER - 1);
        if len > LONGEST_MESSAGE {
            return Err(refuse(format!("a message of {len} bytes")));
        }
        if self.first[0] == PARAMETER {
            self.parameters += len;
            if self.parameters > LONGEST_PARAMETERS {
                return Err(refuse(format!("parameters of {} bytes", self.parameters)));
            }
        }
        Ok(())
    }

    fn authentication(&self) -> Result<()> {
        match u32::try_from(self.number(HEADER)) {
            Ok(CLEAR) => Err(refuse("a request for the password in clear".to_owned())),
            Ok(MD5) => Err(refuse("a request for the password with MD5".to_owned())),
            _ => Ok(()),
        }
    }
}

fn refuse(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{what} of the server is refused"))
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = to.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, to))?;
        Poll::Ready(this.messages.read(&to.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).expect("a short body");
        [&[tag], &len.to_be_bytes()[..], body].concat()
    }

    /// Reads the messages at once, and byte by byte.
    fn read(messages: &[Vec<u8>]) -> bool {
        let bytes = messages.concat();
        let at_once = Messages::default().read(&bytes).is_ok();
        let mut slowly = Messages::default();
        assert_eq!(bytes.chunks(1).try_for_each(|byte| slowly.read(byte)).is_ok(), at_once);
        at_once
    }

    #[test]
    fn only_safe_requests_for_authentication_pass() {
        let request = |kind: u32| [message(b'N', b"a notice"), message(b'R', &kind.to_be_bytes())];
        assert!([0, 10, 11, 12].into_iter().all(|kind| read(&request(kind))), "SCRAM or no password");
        assert!(![3, 5].into_iter().any(|kind| read(&request(kind))));
        let md5_with_salt = message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]);
        assert!(!read(&[md5_with_salt]));
    }

    #[test]
    fn a_long_message_is_refused_at_its_header() {
        let header = |len: usize| [&b"D"[..], &u32::try_from(len).expect("a length").to_be_bytes()].concat();
        assert!(read(&[header(LONGEST_MESSAGE)]));
        assert!(!read(&[header(LONGEST_MESSAGE + 1)]));
        let short = [message(b'Z', b"I"), message(b'1', b""), message(b'C', b"SELECT 1"), header(1 << 30)];
        assert!(!read(&short), "the end of each message is found");
    }

    #[test]
    fn endless_parameters_are_refused() {
        let parameter = message(b'S', &[b'a'; 1 << 10]);
        let mut messages = Messages::default();
        let accepted = (0..10_000).take_while(|_| messages.read(&parameter).is_ok()).count();
        assert_eq!(accepted, LONGEST_PARAMETERS / (parameter.len() - 1));
    }
}
