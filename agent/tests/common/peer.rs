//! A client that writes its messages itself.

use jeton_agent_wire::argument::Input;
use jeton_agent_wire::{
    self as protocol, Answer, Application, Argument, Call, Function, HEADER, Reply, Request,
};
use serde_bytes::Bytes;

use super::*;

/// A connection to an agent, and the number of its last request with calls.
pub struct Peer(pub UnixStream, pub u32);

pub struct Returned {
    pub code: CK_RV,
    /// What the function wrote.
    pub outputs: Vec<Vec<u8>>,
    /// What a client keeps: a ticket, for example.
    pub kept: Option<Vec<u8>>,
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
            Ok(Reply::Started { .. }) => None,
            other => panic!("{other:?}"),
        }
    }

    pub fn is_served(&mut self) -> bool {
        let arguments = vec![Argument::Number(1), Argument::Output(false, Some(0))];
        self.call(0, Function::C_GetSlotList, arguments) == Some(CKR_OK)
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

    /// Calls a function. Returns its code, or `None` if the agent closes the connection.
    pub fn call(&mut self, session: u64, function: Function, arguments: Vec<Argument<'_>>) -> Option<CK_RV> {
        self.returned(session, function, arguments).map(|returned| returned.code)
    }

    /// Calls a function. Returns `None` if the agent closes the connection.
    pub fn returned(
        &mut self,
        session: u64,
        function: Function,
        arguments: Vec<Argument<'_>>,
    ) -> Option<Returned> {
        self.all(session, vec![(function, arguments)])?.pop()
    }

    /// Calls functions in one request, up to the first one that fails. Returns `None` if the agent
    /// closes the connection.
    pub fn all(&mut self, session: u64, calls: Vec<(Function, Vec<Argument<'_>>)>) -> Option<Vec<Returned>> {
        self.1 += 1;
        let (count, number) = (calls.len() as u8, self.1);
        let mut message = encoded(&Request::Calls { session, count, object: 0, number, generation: 0 });
        for (function, arguments) in calls {
            protocol::append(&Call { function, arguments }, &mut message).expect("a message");
        }
        let reply = self.ask(&message)?;
        let mut rest = &reply[..];
        assert!(matches!(protocol::take(&mut rest), Ok(Reply::Answers(number)) if number == self.1));
        let mut all = Vec::new();
        while !rest.is_empty() {
            let answer: Answer<'_> = protocol::take(&mut rest).expect("an answer");
            let outputs = answer.outputs.iter().map(|output| output.to_vec()).collect();
            all.push(Returned { code: answer.code, outputs, kept: answer.kept.map(|kept| kept.to_vec()) });
        }
        Some(all)
    }

    /// Opens a session that can write.
    pub fn open(&mut self, slot: u64) -> u64 {
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        let pointers = [false, false, true].map(Argument::Pointer);
        let arguments = [Argument::Number(slot), Argument::Number(flags)].into_iter().chain(pointers);
        let returned = self.returned(0, Function::C_OpenSession, arguments.collect()).expect("an answer");
        assert_eq!(returned.code, CKR_OK);
        u64::from_ne_bytes(returned.outputs[0][..].try_into().expect("a handle"))
    }

    pub fn login(&mut self, session: u64, user: CK_USER_TYPE, pin: &str) -> Returned {
        let arguments = vec![Argument::Number(user), text(pin)];
        self.returned(session, Function::C_Login, arguments).expect("an answer")
    }

    /// Presents a ticket. Returns the code.
    pub fn resume(&mut self, session: u64, ticket: &[u8]) -> CK_RV {
        let reply = self.ask(&encoded(&Request::Resume { session, ticket: Bytes::new(ticket) }));
        match protocol::decode(&reply.expect("an answer")) {
            Ok(Reply::Done(code)) => code,
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

pub fn text(text: &str) -> Argument<'_> {
    Argument::Input(Input::Data(Bytes::new(text.as_bytes())))
}

pub fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    protocol::append(request, &mut message).expect("a message");
    message
}
