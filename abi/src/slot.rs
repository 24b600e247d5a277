//! "Slot and token management functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton_words::error::{Error, require};
use jeton_words::id::MechanismType;
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo, Wait};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{narrow, slot, wide};
use crate::info::{padded, version};
use crate::input::{In, Place, list};

/// `tokenPresent` is not used, because every slot has a token (perhaps an uninitialised one).
pub unsafe fn C_GetSlotList<T: Token>(
    entry: &Entry<T>,
    _: CK_BBOOL,
    slots: *mut CK_SLOT_ID,
    count: *mut CK_ULONG,
) -> CK_RV {
    entry.call(Function::C_GetSlotList, |token| {
        let ids = token.slots()?;
        // SAFETY: the contract of PKCS#11 for pSlotList and pulCount.
        unsafe { list(slots, count, ids.0.iter().map(|id| narrow(id.0))) }
    })
}

pub unsafe fn C_GetSlotInfo<T: Token>(entry: &Entry<T>, id: CK_SLOT_ID, info: *mut CK_SLOT_INFO) -> CK_RV {
    entry.call(Function::C_GetSlotInfo, |token| {
        let place = Place::at(info)?;
        let info = slot_info(&token.slot(slot(id))?);
        // SAFETY: the contract of PKCS#11 for pInfo.
        unsafe { place.put(info) };
        Ok(())
    })
}

pub unsafe fn C_GetTokenInfo<T: Token>(entry: &Entry<T>, id: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) -> CK_RV {
    entry.call(Function::C_GetTokenInfo, |token| {
        let place = Place::at(info)?;
        let info = token_info(&token.token(slot(id))?);
        // SAFETY: the contract of PKCS#11 for pInfo.
        unsafe { place.put(info) };
        Ok(())
    })
}

pub unsafe fn C_WaitForSlotEvent<T: Token>(
    entry: &Entry<T>,
    flags: CK_FLAGS,
    slot: *mut CK_SLOT_ID,
    reserved: *mut c_void,
) -> CK_RV {
    entry.call(Function::C_WaitForSlotEvent, |token| {
        let place = Place::at(slot)?;
        require(reserved.is_null(), Error::ArgumentsBad)?;
        let wait = if flags & CKF_DONT_BLOCK == 0 { Wait::ForEvent } else { Wait::Never };
        let slot = token.wait_for_slot_event(wait)?;
        // SAFETY: the contract of PKCS#11 for pSlot.
        unsafe { place.put(narrow(slot.0)) };
        Ok(())
    })
}

pub unsafe fn C_GetMechanismList<T: Token>(
    entry: &Entry<T>,
    id: CK_SLOT_ID,
    mechanisms: *mut CK_MECHANISM_TYPE,
    count: *mut CK_ULONG,
) -> CK_RV {
    entry.call(Function::C_GetMechanismList, |token| {
        let ids = token.mechanisms(slot(id))?;
        // SAFETY: the contract of PKCS#11 for pMechanismList and pulCount.
        unsafe { list(mechanisms, count, ids.0.iter().map(|id| narrow(id.0))) }
    })
}

pub unsafe fn C_GetMechanismInfo<T: Token>(
    entry: &Entry<T>,
    id: CK_SLOT_ID,
    mechanism: CK_MECHANISM_TYPE,
    info: *mut CK_MECHANISM_INFO,
) -> CK_RV {
    entry.call(Function::C_GetMechanismInfo, |token| {
        let place = Place::at(info)?;
        let MechanismInfo { min, max, flags } = token.mechanism(slot(id), MechanismType(wide(mechanism)))?;
        let info =
            CK_MECHANISM_INFO { ulMinKeySize: narrow(min), ulMaxKeySize: narrow(max), flags: narrow(flags) };
        // SAFETY: the contract of PKCS#11 for pInfo.
        unsafe { place.put(info) };
        Ok(())
    })
}

pub unsafe fn C_InitToken<T: Token>(
    entry: &Entry<T>,
    id: CK_SLOT_ID,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
    label: *mut CK_UTF8CHAR,
) -> CK_RV {
    entry.call(Function::C_InitToken, |token| {
        // SAFETY: the contract of PKCS#11 for pPin.
        let pin = unsafe { In(pin, pin_len).pin() }?;
        require(!label.is_null(), Error::ArgumentsBad)?;
        // SAFETY: not null; PKCS#11 3.2, C_InitToken: "the 32-byte label".
        let label = unsafe { label.cast::<[u8; 32]>().read_unaligned() };
        token.init_token(slot(id), pin, &label)
    })
}

pub unsafe fn C_InitPIN<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_InitPIN, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pPin.
        let pin = unsafe { In(pin, pin_len).pin() }?;
        answered(token.init_pin(session, pin))
    })
}

pub unsafe fn C_SetPIN<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    old: *mut CK_UTF8CHAR,
    old_len: CK_ULONG,
    new: *mut CK_UTF8CHAR,
    new_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_SetPIN, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pOldPin and pNewPin.
        let (old, new) = unsafe { (In(old, old_len).pin()?, In(new, new_len).pin()?) };
        answered(token.set_pin(session, old, new))
    })
}

fn slot_info(slot: &SlotInfo) -> CK_SLOT_INFO {
    CK_SLOT_INFO {
        slotDescription: padded(&slot.description),
        manufacturerID: padded(&slot.manufacturer),
        flags: (if slot.token_present { CKF_TOKEN_PRESENT } else { 0 })
            | (if slot.removable { CKF_REMOVABLE_DEVICE } else { 0 }),
        hardwareVersion: version(slot.hardware),
        firmwareVersion: version(slot.firmware),
    }
}

fn token_info(token: &TokenInfo) -> CK_TOKEN_INFO {
    CK_TOKEN_INFO {
        label: token.label,
        manufacturerID: padded(&token.manufacturer),
        model: padded(&token.model),
        serialNumber: padded(&token.serial),
        flags: narrow(token.flags),
        ulMaxSessionCount: narrow(token.max_sessions),
        ulSessionCount: narrow(token.sessions),
        ulMaxRwSessionCount: narrow(token.max_rw_sessions),
        ulRwSessionCount: narrow(token.rw_sessions),
        ulMaxPinLen: narrow(token.max_pin_len),
        ulMinPinLen: narrow(token.min_pin_len),
        // The token can grow until the disk is full.
        ulTotalPublicMemory: CK_UNAVAILABLE_INFORMATION,
        ulFreePublicMemory: CK_UNAVAILABLE_INFORMATION,
        ulTotalPrivateMemory: CK_UNAVAILABLE_INFORMATION,
        ulFreePrivateMemory: CK_UNAVAILABLE_INFORMATION,
        hardwareVersion: version(token.hardware),
        firmwareVersion: version(token.firmware),
        utcTime: token.utc_time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_a_slot_shows_whether_a_token_is_present() {
        let slot = SlotInfo {
            description: "Jeton slot 7".into(),
            manufacturer: "Jeton".into(),
            token_present: false,
            removable: false,
            hardware: (1, 2),
            firmware: (3, 4),
        };
        let info = slot_info(&slot);
        assert_eq!((info.flags, info.hardwareVersion.minor, info.firmwareVersion.major), (0, 2, 3));
        assert!(info.slotDescription.starts_with(b"Jeton slot 7  "));
        let slot = SlotInfo { token_present: true, removable: true, ..slot };
        assert_eq!(slot_info(&slot).flags, CKF_TOKEN_PRESENT | CKF_REMOVABLE_DEVICE);
    }

    #[test]
    fn each_number_of_a_token_is_in_its_field() {
        let info = token_info(&TokenInfo {
            label: *b"a label of exactly 32 characters",
            manufacturer: "Jeton".into(),
            model: "software token".into(),
            serial: "0123456789abcdef".into(),
            flags: CKF_TOKEN_INITIALIZED,
            max_sessions: 1,
            sessions: 2,
            max_rw_sessions: 3,
            rw_sessions: 4,
            max_pin_len: 5,
            min_pin_len: 6,
            hardware: (7, 8),
            firmware: (9, 10),
            utc_time: *b"2026112111130000",
        });
        assert_eq!((info.ulMaxSessionCount, info.ulSessionCount), (1, 2));
        assert_eq!((info.ulMaxRwSessionCount, info.ulRwSessionCount), (3, 4));
        assert_eq!((info.ulMaxPinLen, info.ulMinPinLen), (5, 6));
        assert_eq!((info.hardwareVersion.major, info.hardwareVersion.minor), (7, 8));
        assert_eq!((info.firmwareVersion.major, info.firmwareVersion.minor), (9, 10));
        assert_eq!((&info.model, &info.serialNumber), (b"software token  ", b"0123456789abcdef"));
        assert_eq!((info.flags, info.utcTime), (CKF_TOKEN_INITIALIZED, *b"2026112111130000"));
    }
}
