//! "Slot and token management functions", PINs and login.

use cryptoki_sys::*;
use jeton_client::{Access, Arg, SlotId, User};

use super::calls::NOT_BEGUN;
use super::{BAD_MECHANISM, Case, READ_ONLY, case, objects, optional};
use crate::fixture::ensure;

const NO_SLOT: SlotId = SlotId(0x7fff_fff0);

/// A size that each module supports if it has the mechanism, in the unit that PKCS#11 3.2 names for
/// the mechanism. It lies in no range of the other unit.
const UNITS: &[(CK_MECHANISM_TYPE, CK_ULONG)] = &[
    (CKM_RSA_PKCS_KEY_PAIR_GEN, 2048),
    (CKM_EC_KEY_PAIR_GEN, 256),
    (CKM_AES_KEY_GEN, 32),
    (CKM_AES_XTS_KEY_GEN, 64),
    (CKM_CHACHA20_KEY_GEN, 32),
    (CKM_CHACHA20, 256),
    (CKM_GENERIC_SECRET_KEY_GEN, 256),
];

/// Mechanisms of elliptic curves. Each says which fields, names of curves and forms of points it
/// accepts (PKCS#11 3.2, "Elliptic Curve").
const CURVES: &[CK_MECHANISM_TYPE] = &[
    CKM_EC_KEY_PAIR_GEN,
    CKM_EC_EDWARDS_KEY_PAIR_GEN,
    CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
    CKM_ECDSA,
    CKM_ECDSA_SHA256,
    CKM_EDDSA,
    CKM_ECDH1_DERIVE,
    CKM_ECDH1_COFACTOR_DERIVE,
    CKM_ECDH_AES_KEY_WRAP,
];
const FIELDS: CK_FLAGS = CKF_EC_F_P | CKF_EC_F_2M;
const NAMES: CK_FLAGS = CKF_EC_ECPARAMETERS | CKF_EC_OID | CKF_EC_CURVENAME;
const FORMS: CK_FLAGS = CKF_EC_UNCOMPRESS | CKF_EC_COMPRESS;

/// PKCS#11 3.2, "HSS" and "XMSS and XMSSMT": the key sizes of these mechanisms must be 0.
const STATEFUL: &[CK_MECHANISM_TYPE] = &[CKM_HSS_KEY_PAIR_GEN, CKM_HSS, CKM_XMSS, CKM_XMSSMT];

const RESERVED: &[CK_RV] = &[CKR_ARGUMENTS_BAD, CKR_NO_EVENT];
const ANOTHER_USER: &[CK_RV] = &[CKR_USER_ANOTHER_ALREADY_LOGGED_IN];
const READER_EXISTS: &[CK_RV] = &[CKR_SESSION_READ_ONLY_EXISTS];
const DESTROYED: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_OBJECT_HANDLE_INVALID];
// The specification does not say which of these codes takes precedence.
const NO_SUCH_USER: &[CK_RV] =
    &[CKR_PIN_INCORRECT, CKR_USER_ALREADY_LOGGED_IN, CKR_USER_ANOTHER_ALREADY_LOGGED_IN];
const SO_EXISTS: &[CK_RV] = &[CKR_SESSION_READ_WRITE_SO_EXISTS];

pub const CASES: &[Case] = &[
    case("C_GetSlotList", "of slots with a token contains the test token", &[CKR_OK], |fixture| {
        ensure("C_GetSlotList", fixture.module.slots(true)?.contains(&fixture.slot))
    }),
    case("C_GetSlotList", "of slots with a token is a subset of all slots", &[CKR_OK], |fixture| {
        let every = fixture.module.slots(false)?;
        ensure("C_GetSlotList", fixture.module.slots(true)?.iter().all(|slot| every.contains(slot)))
    }),
    case("C_GetSlotList", "into a short list", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        fixture.module.call("C_GetSlotList", &mut [Arg::Number(1), Arg::Buffer(&mut [], &mut 0)])
    }),
    case("C_GetSlotInfo", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.slot_info(NO_SLOT).map(drop)
    }),
    case("C_GetSlotInfo", "of a slot with a token sets CKF_TOKEN_PRESENT", &[CKR_OK], |fixture| {
        ensure("C_GetSlotInfo", fixture.module.slot_info(fixture.slot)?.flags & CKF_TOKEN_PRESENT != 0)
    }),
    case("C_GetTokenInfo", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.token_info(NO_SLOT).map(drop)
    }),
    case("C_GetTokenInfo", "sets the flags of the PIN and of random numbers", &[CKR_OK], |fixture| {
        let wanted = CKF_TOKEN_INITIALIZED | CKF_USER_PIN_INITIALIZED | CKF_LOGIN_REQUIRED | CKF_RNG;
        ensure("C_GetTokenInfo", fixture.module.token_info(fixture.slot)?.flags & wanted == wanted)
    }),
    case("C_GetTokenInfo", "pads its texts with blanks", &[CKR_OK], |fixture| {
        let output = Arg::zeroed();
        fixture.module.call("C_GetTokenInfo", &mut [Arg::Number(fixture.slot.0), Arg::Output(&output)])?;
        ensure("C_GetTokenInfo", !output.bytes()[..96].contains(&0))
    }),
    case("C_GetTokenInfo", "has no deprecated flag", &[CKR_OK], |fixture| {
        let flags = fixture.module.token_info(fixture.slot)?.flags;
        ensure("C_GetTokenInfo", flags & CKF_SECONDARY_AUTHENTICATION == 0)
    }),
    optional("C_WaitForSlotEvent", "without waiting", &[CKR_NO_EVENT, CKR_OK], |fixture| {
        let output = Arg::zeroed();
        fixture
            .module
            .call("C_WaitForSlotEvent", &mut [Arg::Number(CKF_DONT_BLOCK), Arg::Output(&output), Arg::Null])
    }),
    optional("C_WaitForSlotEvent", "with a reserved argument", RESERVED, |fixture| {
        let output = Arg::zeroed();
        fixture.module.call(
            "C_WaitForSlotEvent",
            &mut [Arg::Number(CKF_DONT_BLOCK), Arg::Output(&output), Arg::Output(&output)],
        )
    }),
    case("C_GetMechanismList", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.mechanisms(NO_SLOT).map(drop)
    }),
    case("C_GetMechanismList", "into a short list", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        fixture
            .module
            .call("C_GetMechanismList", &mut [Arg::Number(fixture.slot.0), Arg::Buffer(&mut [0; 32], &mut 1)])
    }),
    case("C_GetMechanismList", "lists each mechanism once", &[CKR_OK], |fixture| {
        let mut listed = fixture.module.mechanisms(fixture.slot)?;
        listed.sort_unstable();
        ensure("C_GetMechanismList", listed.windows(2).all(|two| two[0] != two[1]))
    }),
    case("C_GetMechanismInfo", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.mechanism_info(NO_SLOT, CKM_AES_CBC).map(drop)
    }),
    case("C_GetMechanismInfo", "of an unknown mechanism", BAD_MECHANISM, |fixture| {
        fixture.module.mechanism_info(fixture.slot, 0x7fff_fff0).map(drop)
    }),
    case(
        "C_GetMechanismInfo",
        "of each listed mechanism has a usage flag and ordered sizes",
        &[CKR_OK],
        |fixture| {
            fixture.module.mechanisms(fixture.slot)?.into_iter().try_for_each(|id| {
                let info = fixture.module.mechanism_info(fixture.slot, id)?;
                let flags_fit = info.flags & !CKF_HW != 0 && info.flags & CKF_EXTENSION == 0;
                ensure("C_GetMechanismInfo", flags_fit && info.key_sizes.0 <= info.key_sizes.1)
            })
        },
    ),
    case("C_GetMechanismInfo", "gives sizes in the unit of the mechanism", &[CKR_OK], |fixture| {
        let listed = fixture.module.mechanisms(fixture.slot)?;
        UNITS.iter().filter(|(id, _)| listed.contains(id)).try_for_each(|(id, size)| {
            let (least, most) = fixture.module.mechanism_info(fixture.slot, *id)?.key_sizes;
            ensure("C_GetMechanismInfo", (least, most) == (0, 0) || (least..=most).contains(size))
        })
    }),
    case("C_GetMechanismInfo", "names the fields and forms of each curve mechanism", &[CKR_OK], |fixture| {
        CURVES.iter().filter(|id| fixture.lists(**id)).try_for_each(|id| {
            let flags = fixture.module.mechanism_info(fixture.slot, *id)?.flags;
            ensure("C_GetMechanismInfo", [FIELDS, NAMES, FORMS].iter().all(|any| flags & any != 0))
        })
    }),
    case("C_GetMechanismInfo", "gives no key sizes for stateful signatures", &[CKR_OK], |fixture| {
        STATEFUL.iter().filter(|id| fixture.lists(**id)).try_for_each(|id| {
            let info = fixture.module.mechanism_info(fixture.slot, *id)?;
            ensure("C_GetMechanismInfo", info.key_sizes == (0, 0))
        })
    }),
    case("C_InitToken", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.init_token(NO_SLOT, fixture.so_pin(), "nowhere")
    }),
    case("C_InitPIN", "as the user", &[CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.fresh()?.init_pin("another-1234")
    }),
    case("C_InitPIN", "without a login", &[CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.logged_out(|session| session.init_pin("another-1234"))
    }),
    case("C_SetPIN", "with a wrong old PIN", &[CKR_PIN_INCORRECT], |fixture| {
        fixture.fresh()?.set_pin("not-the-pin-1234", "another-1234")
    }),
    case("C_SetPIN", "in a read-only session", READ_ONLY, |fixture| {
        fixture.reader()?.set_pin(&fixture.pin, &fixture.pin)
    }),
    case("C_SetPIN", "to a PIN that is too short", &[CKR_PIN_LEN_RANGE, CKR_PIN_INVALID], |fixture| {
        fixture.fresh()?.set_pin(&fixture.pin, "")
    }),
    case("C_SetPIN", "to another PIN and back", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.set_pin(&fixture.pin, "another-1234")?;
        session.set_pin("another-1234", &fixture.pin)
    }),
    case("C_Login", "of a user who is logged in", &[CKR_USER_ALREADY_LOGGED_IN], |fixture| {
        fixture.login(User::User, Some(&fixture.pin))
    }),
    case("C_Login", "of the SO while the user is logged in", ANOTHER_USER, |fixture| {
        fixture.login(User::So, Some(fixture.so_pin()))
    }),
    case("C_Login", "with a wrong PIN", &[CKR_PIN_INCORRECT], |fixture| {
        fixture.logged_out(|session| session.login(User::User, Some("not-the-pin-1234")))
    }),
    case("C_Login", "with a NULL PIN", &[CKR_ARGUMENTS_BAD, CKR_PIN_INCORRECT], |fixture| {
        fixture.logged_out(|session| session.login(User::User, None))
    }),
    case("C_Login", "with an unknown user type", &[CKR_USER_TYPE_INVALID], |fixture| {
        fixture.logged_out(|session| {
            fixture.call("C_Login", session, vec![Arg::Number(77), Arg::Bytes(fixture.pin.as_bytes())])
        })
    }),
    case("C_Login", "with CKU_CONTEXT_SPECIFIC and no active operation", NOT_BEGUN, |fixture| {
        fixture.login(User::ContextSpecific, Some(&fixture.pin))
    }),
    case("C_Login", "of the SO while a read-only session is open", READER_EXISTS, |fixture| {
        fixture.logged_out(|session| {
            let _reader = fixture.reader()?;
            session.login(User::So, Some(fixture.so_pin()))
        })
    }),
    case("C_Logout", "without a login", &[CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.logged_out(|session| session.logout())
    }),
    case("C_Logout", "destroys private session objects", DESTROYED, |fixture| {
        let session = fixture.fresh()?;
        let object = session.create_object(&objects::data(true))?;
        session.logout()?;
        fixture.restore()?;
        session.object_size(object).map(drop)
    }),
    optional("C_LoginUser", "of a user who is logged in", &[CKR_USER_ALREADY_LOGGED_IN], |fixture| {
        let arguments = vec![Arg::Number(CKU_USER), Arg::Bytes(fixture.pin.as_bytes()), Arg::Bytes(b"")];
        fixture.call("C_LoginUser", &fixture.session, arguments)
    }),
    optional("C_LoginUser", "with an unknown user name", NO_SUCH_USER, |fixture| {
        let arguments =
            vec![Arg::Number(CKU_USER), Arg::Bytes(fixture.pin.as_bytes()), Arg::Bytes(b"unknown")];
        fixture.call("C_LoginUser", &fixture.session, arguments)
    }),
    optional("C_LoginUser", "with a wrong PIN", &[CKR_PIN_INCORRECT], |fixture| {
        fixture.logged_out(|session| {
            let arguments = vec![Arg::Number(CKU_USER), Arg::Bytes(b"not-the-pin-1234"), Arg::Bytes(b"")];
            fixture.call("C_LoginUser", session, arguments)
        })
    }),
    case("C_OpenSession", "read-only while the SO is logged in", SO_EXISTS, |fixture| {
        fixture.logged_out(|session| {
            session.login(User::So, Some(fixture.so_pin()))?;
            fixture.module.open_session(fixture.slot, Access::ReadOnly).map(drop)
        })
    }),
];

/// The last case, because a module that accepts the call has wiped the token.
pub const LAST: &[Case] =
    &[case("C_InitToken", "while a session is open", &[CKR_SESSION_EXISTS], |fixture| {
        fixture.module.init_token(fixture.slot, fixture.so_pin(), "again")
    })];
