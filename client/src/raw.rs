//! Calls of any function of the standard with any arguments, NULL included, to test a module's
//! answers.
//!
//! A table lists every function with the kinds of its parameters. The memory of each argument
//! outlives the call, so a call with wrong arguments is defined behaviour in the client.

use std::ptr;

use cryptoki_sys::CK_ULONG;

use super::attribute::{Attribute, Mechanism};
use super::failure::{Failure, check};
use super::memory::{Memory, Structure};
use super::module::Module;

mod table;

pub use table::FUNCTIONS;

/// An argument. A pointer and its length are one argument.
pub enum Arg<'a> {
    /// A handle, a flag, a type.
    Number(CK_ULONG),
    /// Input bytes and their number.
    Bytes(&'a [u8]),
    /// `NULL` for bytes, handles or a template, with this length.
    NullBytes(CK_ULONG),
    /// The parameter of a message function, and its length.
    Structure(&'a Structure),
    /// A buffer, and its length in bytes. The module fills it completely.
    Fill(&'a mut [u8]),
    /// A buffer, and a pointer to its length.
    Buffer(&'a mut [u8], &'a mut CK_ULONG),
    /// `NULL` for the buffer, which asks for the length.
    NoBuffer(&'a mut CK_ULONG),
    /// `NULL` for the pointer to the length, or for both pointers.
    NoLength(Option<&'a mut [u8]>),
    /// Attributes and their number. Values that the module writes are discarded.
    Template(&'a [Attribute]),
    /// A mechanism.
    Mechanism(&'a Mechanism),
    /// Memory for a structure or a handle, at least [`Arg::STRUCTURE_LEN`] bytes.
    Output(&'a Memory),
    /// `NULL` for a mechanism or a structure.
    Null,
}

impl Arg<'_> {
    /// The size of the memory for a structure. No structure of the standard is larger.
    pub const STRUCTURE_LEN: usize = 1024;

    /// Returns zeroed memory for a structure.
    pub fn zeroed() -> Memory {
        Memory::of(&[0; Self::STRUCTURE_LEN])
    }
}

/// The kind of a parameter. Each kind names the arguments that fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Arg::Number`]
    Number,
    /// [`Arg::Bytes`], [`Arg::NullBytes`] or [`Arg::Structure`]. A `Length` follows.
    Bytes,
    /// [`Arg::Fill`] or [`Arg::NullBytes`]. A `Length` follows.
    Fill,
    /// [`Arg::NullBytes`], for the handles that `C_FindObjects` writes. A `Length` follows.
    Handles,
    /// [`Arg::Buffer`], [`Arg::NoBuffer`] or [`Arg::NoLength`], for bytes. A `Length` follows.
    Buffer,
    /// Like `Buffer`, for a list of slots, mechanism types or interfaces.
    List,
    /// [`Arg::Template`] or [`Arg::NullBytes`]. A `Length` follows.
    Template,
    /// [`Arg::Mechanism`] or [`Arg::Null`]
    Mechanism,
    /// [`Arg::Output`] or [`Arg::Null`]
    Output,
    /// The length that belongs to the parameter before it.
    Length,
    /// A callback, which is always `NULL`.
    Callback,
}

/// A function of the standard.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name, for example `C_Sign`.
    pub name: &'static str,
    /// The kind of each C parameter.
    pub parameters: &'static [Kind],
}

impl Function {
    /// Returns the kinds of the arguments of [`Module::call`].
    pub fn arguments(&self) -> impl Iterator<Item = Kind> {
        arguments_of(self.parameters)
    }
}

impl Module {
    /// Calls the function with the name `function`.
    ///
    /// # Panics
    ///
    /// Panics if the function is unknown or if the arguments do not match its parameters.
    pub fn call(&self, function: &'static str, arguments: &mut [Arg<'_>]) -> Result<(), Failure> {
        let known = FUNCTIONS.iter().find(|known| known.name == function);
        let kinds = known.map(|known| known.parameters).unwrap_or_else(|| panic!("{function} is unknown"));
        let given: Vec<_> = arguments_of(kinds).collect();
        assert!(
            given.len() == arguments.len()
                && given.iter().zip(&*arguments).all(|(kind, argument)| fits(*kind, argument)),
            "{function} takes {kinds:?}"
        );
        let mut kept = Kept::default();
        let words: Vec<usize> = arguments.iter_mut().flat_map(|argument| kept.words(argument)).collect();
        check(function, self.dispatch(function, &words), "calling it")
    }
}

fn arguments_of(kinds: &[Kind]) -> impl Iterator<Item = Kind> {
    kinds.iter().copied().filter(|kind| !matches!(kind, Kind::Length | Kind::Callback))
}

fn fits(kind: Kind, argument: &Arg<'_>) -> bool {
    match argument {
        Arg::Number(_) => kind == Kind::Number,
        Arg::Bytes(_) | Arg::Structure(_) => kind == Kind::Bytes,
        Arg::NullBytes(_) => matches!(kind, Kind::Bytes | Kind::Template | Kind::Fill | Kind::Handles),
        Arg::Fill(_) => kind == Kind::Fill,
        Arg::Buffer(buffer, length) => match kind {
            Kind::Buffer => buffer.len() as CK_ULONG >= **length,
            Kind::List => (buffer.len() / ITEM) as CK_ULONG >= **length,
            _ => false,
        },
        Arg::NoBuffer(_) | Arg::NoLength(_) => matches!(kind, Kind::Buffer | Kind::List),
        Arg::Template(_) => kind == Kind::Template,
        Arg::Mechanism(_) => kind == Kind::Mechanism,
        Arg::Output(memory) => kind == Kind::Output && memory.len() >= Arg::STRUCTURE_LEN,
        Arg::Null => matches!(kind, Kind::Mechanism | Kind::Output),
    }
}

const ITEM: usize = size_of::<cryptoki_sys::CK_INTERFACE>();

/// The memory of the arguments during the call.
#[derive(Default)]
struct Kept {
    memory: Vec<Memory>,
}

impl Kept {
    fn words(&mut self, argument: &mut Arg<'_>) -> Vec<usize> {
        match argument {
            Arg::Number(number) => vec![*number as usize],
            Arg::Bytes(bytes) => vec![bytes.as_ptr().expose_provenance(), bytes.len()],
            Arg::NullBytes(length) => vec![0, *length as usize],
            Arg::Structure(structure) => {
                let (memory, held) = (*structure).clone().finish();
                self.memory.extend(held);
                let length = memory.len();
                vec![self.keep(memory), length]
            }
            Arg::Fill(bytes) => vec![bytes.as_mut_ptr().expose_provenance(), bytes.len()],
            Arg::Buffer(bytes, length) => {
                vec![bytes.as_mut_ptr().expose_provenance(), place_of(length)]
            }
            Arg::NoBuffer(length) => vec![0, place_of(length)],
            Arg::NoLength(bytes) => {
                vec![bytes.as_mut().map_or(0, |bytes| bytes.as_mut_ptr().expose_provenance()), 0]
            }
            Arg::Template(attributes) => vec![self.template(attributes), attributes.len()],
            Arg::Mechanism(mechanism) => {
                let raw = mechanism.as_raw();
                let made = Structure::new().number(raw.mechanism);
                let made = if raw.pParameter.is_null() {
                    made.null()
                } else {
                    made.pointer(&Memory::of(&mechanism.parameter))
                };
                let (memory, held) = made.number(raw.ulParameterLen).finish();
                self.memory.extend(held);
                vec![self.keep(memory)]
            }
            Arg::Output(memory) => vec![self.keep((*memory).clone())],
            Arg::Null => vec![0],
        }
    }

    /// Copies the values, because C_GetAttributeValue writes to them.
    fn template(&mut self, attributes: &[Attribute]) -> usize {
        let made = attributes
            .iter()
            .fold(Structure::new(), |made, attribute| made.number(attribute.kind).bytes(&attribute.value));
        let (memory, held) = made.finish();
        self.memory.extend(held);
        self.keep(memory)
    }

    fn keep(&mut self, memory: Memory) -> usize {
        let address = memory.address();
        self.memory.push(memory);
        address
    }
}

fn place_of(length: &mut CK_ULONG) -> usize {
    ptr::from_mut(length).expose_provenance()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_has_104_functions() {
        assert_eq!(FUNCTIONS.len(), 104);
        let session: Vec<_> =
            FUNCTIONS.iter().filter(|one| one.name == "C_Sign").flat_map(Function::arguments).collect();
        assert_eq!(session, [Kind::Number, Kind::Bytes, Kind::Buffer]);
    }
}
