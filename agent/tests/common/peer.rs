//! A client that writes its messages itself.

use std::borrow::Cow;

use jeton_agent_wire::call::Here;
use jeton_agent_wire::{self as protocol, Answer, Application, Call, HEADER, Outcome, Reply, Request};
use jeton_words::error::{Error, Result as Returns};
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle as Object, SessionHandle, SlotId};
use jeton_words::mechanism::{Mechanism as Used, find};
use jeton_words::params::Params;
use jeton_words::session::Access as Type;
pub use jeton_words::session::User as Who;
use jeton_words::template::{Given, Raw, Template};
use serde_bytes::Bytes;

use super::*;

/// A connection to an agent, and the number of its last request with calls.
pub struct Peer(pub UnixStream, pub u32);

/// The answer to a call.
pub struct Returned {
    message: Vec<u8>,
}

impl Returned {
    /// Returns the answer.
    pub fn answer(&self) -> Answer<'_> {
        protocol::decode(&self.message).expect("an answer")
    }

    pub fn result(&self) -> Returns<()> {
        self.answer().error().map_or(Ok(()), Err)
    }

    /// Returns what a client keeps: a ticket, for example.
    pub fn kept(&self) -> Option<Vec<u8>> {
        self.answer().kept.map(|kept| kept.to_vec())
    }

    /// Returns the object that the call made.
    pub fn object(&self) -> Object {
        match self.answer().outcome {
            Ok(Outcome::C_CreateObject { result, .. } | Outcome::C_CopyObject { result, .. }) => result,
            _ => panic!("no object: {:?}", self.result()),
        }
    }
}

impl Peer {
    pub fn connect(directory: &Path) -> Self {
        let stream = UnixStream::connect(socket(directory)).expect("the agent");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        Self(stream, 0)
    }

    /// Connects, and starts an application.
    pub fn started(directory: &Path) -> Self {
        let mut peer = Self::connect(directory);
        peer.start();
        peer
    }

    /// Starts an application with a session that can write.
    pub fn opened(directory: &Path, slot: u64) -> (Self, u64) {
        let mut peer = Self::started(directory);
        let session = peer.open(slot);
        (peer, session)
    }

    /// Sends a message. Returns the answer, or `None` if the agent closes the connection.
    pub fn ask(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.write_all(&frame(message)).ok()?;
        read_frame(&mut self.0)
    }

    /// Returns why the agent refuses to start an application; `None` if it does not.
    pub fn refusal(&mut self) -> Option<String> {
        let reply = self.ask(&encoded(&Request::Start { version: protocol::VERSION, single: false }));
        let Some(reply) = reply else { return Some("the connection ended".to_owned()) };
        match protocol::decode(&reply) {
            Ok(Reply::Refused(reason)) => Some(reason.to_owned()),
            Ok(Reply::Busy) => Some("busy".to_owned()),
            Ok(Reply::Started { .. }) => None,
            other => panic!("{other:?}"),
        }
    }

    pub fn is_served(&mut self) -> bool {
        self.call(0, Call::C_GetSlotList {}) == Some(Ok(()))
    }

    /// Starts an application. Returns its name and the greatest length of a message.
    pub fn start(&mut self) -> (Application, u64) {
        let reply = self.ask(&encoded(&Request::Start { version: protocol::VERSION, single: false }));
        match protocol::decode(&reply.expect("an answer")) {
            Ok(Reply::Started { application, longest, .. }) => (application, longest),
            other => panic!("{other:?}"),
        }
    }

    /// Joins an application. Returns whether the agent allows it.
    pub fn joins(&mut self, application: Application) -> bool {
        let reply = self.ask(&encoded(&Request::Join { version: protocol::VERSION, application }));
        matches!(protocol::decode(&reply.expect("an answer")), Ok(Reply::Started { .. }))
    }

    /// Calls a function. Returns its result, or `None` if the agent closes the connection.
    pub fn call(&mut self, session: u64, call: Call<'_>) -> Option<Returns<()>> {
        self.returned(session, call).map(|returned| returned.result())
    }

    /// Calls a function. Returns `None` if the agent closes the connection.
    pub fn returned(&mut self, session: u64, call: Call<'_>) -> Option<Returned> {
        self.all(session, vec![call])?.pop()
    }

    /// Calls functions in one request, up to the first one that fails. Returns `None` if the agent
    /// closes the connection.
    pub fn all(&mut self, session: u64, calls: Vec<Call<'_>>) -> Option<Vec<Returned>> {
        self.1 += 1;
        let (count, number) = (calls.len() as u8, self.1);
        let mut message = encoded(&Request::Calls { session, count, object: 0, number, generation: 0 });
        calls.iter().for_each(|call| protocol::append(call, &mut message).expect("a message"));
        let reply = self.ask(&message)?;
        let mut rest = &reply[..];
        assert!(matches!(protocol::take(&mut rest), Ok(Reply::Answers(number)) if number == self.1));
        let mut all = Vec::new();
        while !rest.is_empty() {
            let start = rest;
            let _: Answer<'_> = protocol::take(&mut rest).expect("an answer");
            all.push(Returned { message: start[..start.len() - rest.len()].to_vec() });
        }
        Some(all)
    }

    /// Opens a session that can write.
    pub fn open(&mut self, slot: u64) -> u64 {
        let call = Call::C_OpenSession { slot: SlotId(slot), access: Type::ReadWrite, asynchronous: false };
        let returned = self.returned(0, call).expect("an answer");
        let Ok(Outcome::C_OpenSession { result, .. }) = returned.answer().outcome else {
            panic!("no session: {:?}", returned.result());
        };
        result.0
    }

    /// Makes a token in the free slot. Returns the slot.
    pub fn make_token(&mut self) -> u64 {
        let slots = self.returned(0, Call::C_GetSlotList {}).expect("an answer");
        let Ok(Outcome::C_GetSlotList { result }) = slots.answer().outcome else { panic!("no slots") };
        let slot = *result.0.last().expect("a free slot");
        let mut label = [b' '; 32];
        label[0] = b't';
        let init = Call::C_InitToken { slot, pin: text(SO_PIN), label };
        assert_eq!(self.call(0, init), Some(Ok(())));
        let session = self.open(slot.0);
        assert_eq!(self.login(session, Who::SecurityOfficer, SO_PIN).result(), Ok(()));
        let init = Call::C_InitPIN { session: Here, pin: text(PIN) };
        assert_eq!(self.call(session, init), Some(Ok(())));
        slot.0
    }

    pub fn login(&mut self, session: u64, user: Who, pin: &str) -> Returned {
        self.returned(session, Call::C_Login { session: Here, user, pin: text(pin) }).expect("an answer")
    }

    /// Presents a ticket.
    pub fn resume(&mut self, session: u64, ticket: &[u8]) -> Returns<()> {
        let reply = self.ask(&encoded(&Request::Resume { session, ticket: Bytes::new(ticket) }));
        match protocol::decode(&reply.expect("an answer")) {
            Ok(Reply::Resumed(result)) => result,
            other => panic!("{other:?}"),
        }
    }
}

pub fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_le_bytes(), message].concat()
}

/// Reads a message. Returns `None` at the end of the stream.
pub fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).ok()?;
    let mut message = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

pub fn text(text: &str) -> &Bytes {
    Bytes::new(text.as_bytes())
}

/// Returns a mechanism without a parameter.
pub fn mechanism(number: CK_MECHANISM_TYPE) -> Cow<'static, Used> {
    used(number, Params::None)
}

/// Returns a mechanism.
pub fn used(number: CK_MECHANISM_TYPE, params: Params) -> Cow<'static, Used> {
    Cow::Owned(Used { info: find(MechanismType(number)).expect("a mechanism"), params })
}

/// Returns a template with these attributes.
pub fn template<'a>(attributes: &[(CK_ATTRIBUTE_TYPE, &'a [u8])]) -> Cow<'a, Template<'a>> {
    let given = |(id, value): &(u64, &'a [u8])| Given { id: AttributeType(*id), value: Raw::Bytes(value) };
    Cow::Owned(Template(attributes.iter().map(given).collect()))
}

pub fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    protocol::append(request, &mut message).expect("a message");
    message
}
