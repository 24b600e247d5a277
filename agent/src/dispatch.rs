//! Carries calls out. The table of functions makes the places for the results of each function, the
//! call of the module, and the outcome.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jeton::error::{Error, Result};
use jeton::functions::{Module, Output};
use jeton::id::{AttributeType, ObjectHandle, SessionHandle};
use jeton_agent_wire::call::{Data, Found, Here, Length, MAX_HANDLES, OutputRoom, Told};
use jeton_agent_wire::channel::{KEPT, wipe};
use jeton_agent_wire::{Call, Malformed, Outcome};
use jeton_secret::clear_registers;
use jeton_words::attribute::{AttributeView, Shown};
use jeton_words::bounded::MAX_ATTRIBUTES;
use jeton_words::derive::Additional;
use jeton_words::functions;
use jeton_words::mechanism::MECHANISMS;
use jeton_words::message::MessageParams;
use jeton_words::operation::Signed;
use jeton_words::token::{Attributes, Room, Token, worse};
use serde_bytes::{ByteBuf, Bytes};
use tracing::error;

use crate::request_memory::Budget;

/// The greatest room for an output in bytes, whatever the application has.
const MAX_ROOM: usize = 1 << 26;

/// The size of an attribute of C. An array of attributes in an application has room for this number
/// of bytes for each.
const ATTRIBUTE: usize = 24;

/// The bytes of an attribute in an answer without its value: in memory, and encoded.
const TOLD: usize = size_of::<(AttributeType, Told<'_>)>() + 24;

/// The same for an item of a list.
const ITEM: usize = 8 + 10;

thread_local! {
    /// The memory of an output, wiped. The next output of the connection takes it.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the size of the memory that stays for the next output.
pub fn room() -> usize {
    ROOM.with_borrow(Vec::capacity)
}

/// Drops that memory if it is long.
pub fn drop_room() {
    if room() > KEPT {
        ROOM.take();
    }
}

/// The memory for an output.
struct Place(Vec<u8>);

impl Place {
    fn new(size: usize) -> Self {
        let mut bytes = ROOM.take();
        if bytes.capacity() < size {
            bytes = vec![0; size];
        }
        bytes.resize(size, 0);
        Self(bytes)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        wipe(&mut self.0);
        ROOM.set(std::mem::take(&mut self.0));
    }
}

/// The place for an output in the two-call convention; `None` if the caller asks for the length.
struct Buffer(Option<Place>);

impl Buffer {
    fn new(room: OutputRoom) -> Self {
        Self(matches!(room, OutputRoom::Bytes(_)).then(|| Place::new(size(room))))
    }

    fn output(&mut self) -> Output<'_> {
        self.0.as_mut().map_or(Output::Length, |place| Output::Buffer(&mut place.0))
    }

    /// Returns the bytes that a function wrote.
    fn written(&self, result: &impl Written) -> Data<'_> {
        let written = self.0.as_ref().and_then(|place| place.0.get(..result.written()));
        data(written.unwrap_or_default())
    }
}

fn size(room: OutputRoom) -> usize {
    match room {
        OutputRoom::Length => 0,
        OutputRoom::Bytes(bytes) => clipped(bytes),
    }
}

fn clipped(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(MAX_ROOM).min(MAX_ROOM)
}

fn data(bytes: &[u8]) -> Data<'_> {
    Data(Cow::Borrowed(Bytes::new(bytes)))
}

/// A result that says how many bytes of the output were written.
trait Written {
    fn written(&self) -> usize;
}

impl Written for usize {
    fn written(&self) -> usize {
        *self
    }
}

impl Written for Signed {
    fn written(&self) -> usize {
        match self {
            Self::Bytes(len) => *len,
            // The client lays it out.
            Self::Password(_) => 0,
        }
    }
}

impl Written for (usize, Option<ObjectHandle>) {
    fn written(&self) -> usize {
        self.0
    }
}

/// Returns what the module gets for an argument, or the place for a result.
macro_rules! place {
    (Session $argument:ident $session:ident) => {{
        let Here = *$argument;
        $session
    }};
    (Label $argument:ident $session:ident) => {
        &*$argument
    };
    (Pin $argument:ident $session:ident) => {
        &**$argument
    };
    (Bytes $argument:ident $session:ident) => {
        &**$argument
    };
    (Fill $argument:ident $session:ident) => {
        Place::new(clipped(*$argument))
    };
    (Handles $argument:ident $session:ident) => {
        vec![ObjectHandle(0); handles(*$argument)]
    };
    (Output $argument:ident $session:ident) => {
        Buffer::new(*$argument)
    };
    (Template $argument:ident $session:ident) => {
        &**$argument
    };
    (Mechanism $argument:ident $session:ident) => {
        &**$argument
    };
    (CryptMechanism $argument:ident $session:ident) => {
        (&**$argument).into()
    };
    (Message $argument:ident $session:ident) => {
        std::mem::replace($argument, MessageParams::empty())
    };
    (MaybeMessage $argument:ident $session:ident) => {
        $argument.take()
    };
    ($other:ident $argument:ident $session:ident) => {
        *$argument
    };
}

/// Passes it.
macro_rules! pass {
    (Fill $place:ident) => {
        &mut $place.0
    };
    (Handles $place:ident) => {
        &mut $place
    };
    (Output $place:ident) => {
        $place.output()
    };
    (Message $place:ident) => {
        &mut $place
    };
    (MaybeMessage $place:ident) => {
        $place.as_mut()
    };
    ($other:ident $place:ident) => {
        $place
    };
}

/// Returns what the function wrote there.
macro_rules! written {
    (Fill $place:ident $result:ident) => {
        data(&$place.0)
    };
    (Handles $place:ident $result:ident) => {{
        $place.truncate($result);
        Found($place)
    }};
    (Output $place:ident $result:ident) => {
        $place.written(&$result)
    };
    (Message $place:ident $result:ident) => {
        $place
    };
    (MaybeMessage $place:ident $result:ident) => {
        $place
    };
    ($other:ident $place:ident $result:ident) => {
        ()
    };
}

/// Returns the bytes of the place for a result.
macro_rules! needed {
    // It is filled, so it is not clipped.
    (Fill $argument:ident) => {
        if *$argument <= MAX_ROOM as u64 { 2 * clipped(*$argument) } else { usize::MAX }
    };
    (Handles $argument:ident) => {
        handles(*$argument) * ITEM
    };
    (Output $argument:ident) => {
        2 * size(*$argument)
    };
    ($other:ident $argument:ident) => {{
        let _ = $argument;
        0
    }};
}

fn handles(count: u64) -> usize {
    usize::try_from(count).unwrap_or(MAX_HANDLES).min(MAX_HANDLES)
}

/// Takes the outcome of a call.
pub type Answering<'a> = dyn FnMut(Result<Outcome<'_>>) -> Result<(), Malformed> + 'a;

macro_rules! make {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        /// Returns the bytes that the results of a call need, without the values of attributes.
        /// The answer has a copy of each output.
        fn room_of(module: &Module, call: &Call<'_>) -> usize {
            match call {
                Call::C_GetSlotList {} => module.slot_count() * ITEM,
                Call::C_GetMechanismList { .. } => MECHANISMS.len() * ITEM,
                Call::C_GetAttributeValue { asked, .. } => asked.0.len() * TOLD,
                Call::C_DeriveKey { mechanism, more, .. } => {
                    more.0.len() * (size_of::<Additional<'_>>() + ITEM) + 2 * mechanism.params.output_len()
                }
                Call::Refused { .. } | Call::Clear(_) => 0,
                $(
                    #[allow(unreachable_patterns, reason = "two lists are above")]
                    Call::$function { $($argument),* } => {
                        0_usize $(.saturating_add(needed!($kind $argument)))*
                    }
                )*
            }
        }

        /// Carries out a call. `answer` gets the outcome.
        pub fn carry_out(
            module: &Module,
            session: SessionHandle,
            call: &mut Call<'_>,
            budget: &mut Budget,
            answer: &mut Answering<'_>,
        ) -> Result<(), Malformed> {
            if !budget.take(room_of(module, call)) {
                let function = call.function();
                tracing::warn!(function = function.name(), "no memory for a call");
                // The error ends what it would end in process.
                module.refused(session, function, Error::HostMemory);
                return answer(Err(Error::DeviceMemory));
            }
            match call {
                $(Call::$function { $($argument),* } => {
                    $(
                        #[allow(unused_mut, reason = "only the place for a result changes")]
                        let mut $argument = place!($kind $argument session);
                    )*
                    match guarded(|| Token::$method(module, $(pass!($kind $argument)),*)) {
                        Err(error) => answer(Err(error)),
                        #[allow(clippy::let_unit_value, reason = "some functions return nothing")]
                        Ok(result) => {
                            $(let $argument = written!($kind $argument result);)*
                            answer(Ok(Outcome::$function { result, $($argument),* }))
                        }
                    }
                })*
                Call::Refused { function, error } => answer(Err(module.refused(session, *function, *error))),
                Call::Clear(function) => {
                    answer(module.clear(session, *function).map(|()| Outcome::Cleared))
                }
                Call::C_GetAttributeValue { object, asked } => {
                    let told = Vec::with_capacity(asked.0.len());
                    let left = MAX_ATTRIBUTES - asked.0.len();
                    let mut values = Values { asked: &asked.0, told, left, outcome: Ok(()), budget };
                    let outcome = guarded(|| module.attributes(session, *object, &mut values));
                    answer(match (outcome, values.outcome) {
                        (Err(error), _) | (_, Err(error @ Error::DeviceMemory)) => Err(error),
                        _ => Ok(Outcome::C_GetAttributeValue(values.told)),
                    })
                }
                Call::C_DeriveKey { mechanism, base, template, more } => {
                    let templates = std::mem::take(&mut more.0).into_iter();
                    let mut more: Vec<_> =
                        templates.map(|template| Additional { template, key: None }).collect();
                    let result =
                        guarded(|| Token::derive(module, session, mechanism, *base, template, &mut more));
                    let more = more.iter().map(|further| further.key).collect();
                    answer(Ok(Outcome::C_DeriveKey { result, more }))
                }
            }
        }
    };
}

functions!(make);

/// Calls a function of the module. A panic is a bug, and costs the call only: the module keeps its
/// state valid. Clears the vector registers, which may have parts of keys.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload: Box<dyn Any + Send>| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        error!(panic = text, "a call panicked");
        Err(Error::GeneralError)
    });
    clear_registers();
    outcome
}

/// The attributes of a call of `C_GetAttributeValue`.
struct Values<'a> {
    asked: &'a [(AttributeType, Room)],
    told: Vec<Told<'static>>,
    /// The number of attributes that nested templates may still have: a client decodes no more.
    left: usize,
    /// `DeviceMemory` if the client's quota, or the answer, has no room for the values.
    outcome: Result<()>,
    budget: &'a mut Budget,
}

impl Attributes for Values<'_> {
    fn count(&self) -> usize {
        self.asked.len()
    }

    fn asked(&self, index: usize) -> (AttributeType, Room) {
        self.asked[index].clone()
    }

    fn tell(&mut self, index: usize, value: Result<AttributeView<'_>>) {
        let told = match value {
            Ok(view) => self.told(&view, &self.asked[index].1),
            Err(error) => {
                self.outcome = worse(self.outcome, Err(error));
                Told::Refused(error)
            }
        };
        self.told.push(told);
    }

    fn outcome(&self) -> Result<()> {
        self.outcome
    }
}

impl Values<'_> {
    /// Returns what travels of a value.
    fn told(&mut self, view: &AttributeView<'_>, room: &Room) -> Told<'static> {
        let (len, length) = match view {
            AttributeView::Bytes(Shown::Number(number)) => (number.len(), Length::Number),
            AttributeView::Bytes(bytes) => (bytes.len(), Length::Bytes(bytes.len() as u64)),
            AttributeView::Template(within) => {
                (within.len() * ATTRIBUTE, Length::Attributes(within.len() as u64))
            }
            AttributeView::Length(len) => (usize::MAX, Length::Bytes(*len as u64)),
        };
        let room_len = match room {
            Room::Length => return Told::Length(length),
            Room::Bytes(len) => *len,
            Room::Template(len, _) => *len,
        };
        if room_len < len as u64 {
            self.outcome = worse(self.outcome, Err(Error::BufferTooSmall { needed: len }));
            return Told::Length(length);
        }
        let (parts, needed) = match view {
            AttributeView::Template(within) => (within.len(), within.len() * TOLD),
            // The answer has a copy.
            AttributeView::Bytes(bytes) => (0, 2 * bytes.len()),
            AttributeView::Length(_) => (0, 0),
        };
        let left = self.left.checked_sub(parts);
        self.left = left.unwrap_or(0);
        if left.is_none() || !self.budget.take(needed) {
            self.outcome = Err(Error::DeviceMemory);
            return Told::Length(length);
        }
        match (view, room) {
            // The caller's types count for nothing: the array may have been taken for bytes.
            (AttributeView::Template(within), room) => {
                let rooms = if let Room::Template(_, rooms) = room { &rooms[..] } else { &[] };
                let rooms = rooms.iter().chain(iter::repeat(&Room::Length));
                let nested = within.iter().zip(rooms);
                Told::Template(nested.map(|((id, view), room)| (*id, self.told(view, room))).collect())
            }
            (AttributeView::Bytes(Shown::Number(number)), _) => Told::Number(u64::from_ne_bytes(*number)),
            (AttributeView::Bytes(bytes), _) => Told::Bytes(Data(Cow::Owned(ByteBuf::from(bytes.to_vec())))),
            (AttributeView::Length(_), _) => Told::Length(length),
        }
    }
}
