//! The types of the arguments and results of PKCS#11, without C pointers, and without a crypto
//! library: identifiers, errors, templates, mechanisms with their parameters, and answers.
//!
//! They travel in messages, which are as hostile as their sender: decoding bounds the number and the
//! depth of attributes, but not the lengths in a parameter.
//!
//! The core computes with them, and the C interface reads them from a caller's memory.

#![forbid(unsafe_code)]

pub mod asynchronous;
pub mod attribute;
pub mod bounded;
pub mod cipher;
pub mod derive;
pub mod effect;
pub mod error;
pub mod general;
pub mod hash;
pub mod id;
pub mod limit;
pub mod mechanism;
pub mod message;
pub mod operation;
pub mod params;
pub mod password;
pub mod session;
pub mod shape;
pub mod slot;
pub mod sp800_108;
pub mod template;
pub mod tls;
pub mod token;
