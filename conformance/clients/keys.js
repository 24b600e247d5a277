const assert = require("assert");
const crypto = require("crypto");
const p = require("pkcs11js");

const module_ = new p.PKCS11();
module_.load(process.env.MODULE);
module_.C_Initialize();
const slot = module_.C_GetSlotList(true).find(
  (slot) => module_.C_GetTokenInfo(slot).label.trim() === process.env.TOKEN);
const session = module_.C_OpenSession(slot, p.CKF_SERIAL_SESSION | p.CKF_RW_SESSION);
module_.C_Login(session, p.CKU_USER, process.env.PIN);

const P256 = Buffer.from("06082a8648ce3d030107", "hex");
const pair = module_.C_GenerateKeyPair(session, { mechanism: p.CKM_EC_KEY_PAIR_GEN },
  [{ type: p.CKA_EC_PARAMS, value: P256 }, { type: p.CKA_TOKEN, value: true }, { type: p.CKA_VERIFY, value: true }],
  [{ type: p.CKA_TOKEN, value: true }, { type: p.CKA_SIGN, value: true }, { type: p.CKA_LABEL, value: "node" }]);

module_.C_FindObjectsInit(session, [{ type: p.CKA_LABEL, value: "node" }]);
const key = module_.C_FindObjects(session);
module_.C_FindObjectsFinal(session);
assert.deepStrictEqual(key, pair.privateKey);

const message = Buffer.from("a message");
const digest = crypto.createHash("sha256").update(message).digest();
module_.C_SignInit(session, { mechanism: p.CKM_ECDSA }, key);
const signature = module_.C_Sign(session, digest, Buffer.alloc(64));

const [{ value: point }] = module_.C_GetAttributeValue(session, pair.publicKey, [{ type: p.CKA_EC_POINT }]);
const coordinate = (from) => point.subarray(from, from + 32).toString("base64url");
const jwk = { kty: "EC", crv: "P-256", x: coordinate(3), y: coordinate(35) };
const outside = { key: crypto.createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" };
assert(crypto.verify("sha256", message, outside, signature));

const aes = module_.C_GenerateKey(session, { mechanism: p.CKM_AES_KEY_GEN },
  [{ type: p.CKA_VALUE_LEN, value: 32 }, { type: p.CKA_ENCRYPT, value: true }, { type: p.CKA_DECRYPT, value: true }]);
const cbc = { mechanism: p.CKM_AES_CBC_PAD, parameter: Buffer.alloc(16) };
module_.C_EncryptInit(session, cbc, aes);
const encrypted = module_.C_Encrypt(session, message, Buffer.alloc(64));
module_.C_DecryptInit(session, cbc, aes);
assert.deepStrictEqual(module_.C_Decrypt(session, encrypted, Buffer.alloc(64)), message);
assert.strictEqual(module_.C_GenerateRandom(session, Buffer.alloc(32)).length, 32);

module_.C_DestroyObject(session, pair.privateKey);
module_.C_DestroyObject(session, pair.publicKey);
module_.C_Logout(session);
module_.C_CloseSession(session);
module_.C_Finalize();
