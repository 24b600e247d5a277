//! The message-based functions.

mod crypt;
mod sign;

pub use crypt::{
    C_DecryptMessage, C_DecryptMessageBegin, C_DecryptMessageNext, C_EncryptMessage, C_EncryptMessageBegin,
    C_EncryptMessageNext, C_MessageDecryptFinal, C_MessageDecryptInit, C_MessageEncryptFinal,
    C_MessageEncryptInit,
};
pub use sign::{
    C_MessageSignFinal, C_MessageSignInit, C_MessageVerifyFinal, C_MessageVerifyInit, C_SignMessage,
    C_SignMessageBegin, C_SignMessageNext, C_VerifyMessage, C_VerifyMessageBegin, C_VerifyMessageNext,
};
