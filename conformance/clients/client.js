const readline = require("readline");
const p = require("pkcs11js");

const module_ = new p.PKCS11();
module_.load(process.env.MODULE);
let slot = null, session = null, key = null;

function find() {
  if (!session) {
    slot = module_.C_GetSlotList(true).find((slot) => module_.C_GetTokenInfo(slot).label.trim() === process.env.TOKEN);
    session = module_.C_OpenSession(slot, p.CKF_SERIAL_SESSION);
    module_.C_Login(session, p.CKU_USER, process.env.PIN);
  }
  module_.C_FindObjectsInit(session, [{ type: p.CKA_CLASS, value: p.CKO_PRIVATE_KEY }, { type: p.CKA_LABEL, value: "key" }]);
  key = module_.C_FindObjects(session);
  module_.C_FindObjectsFinal(session);
  return key ? "found" : "no such key";
}

function sign() {
  module_.C_SignInit(session, { mechanism: p.CKM_ECDSA }, key);
  module_.C_Sign(session, Buffer.alloc(32), Buffer.alloc(64));
  return "signed";
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  try {
    console.log(line === "find" ? find() : sign());
  } catch (error) {
    console.log(error.message);
    if (session) module_.C_CloseAllSessions(slot);
    session = key = null;
  }
});
module_.C_Initialize();
