import java.math.BigInteger;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Security;
import java.security.Signature;
import java.security.interfaces.ECPublicKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.security.KeyFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.crypto.Cipher;
import javax.crypto.KeyAgreement;
import javax.crypto.KeyGenerator;
import javax.crypto.Mac;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Uses the services of SunPKCS11 and checks each with the JDK's own providers: Services CONFIGURATION PIN ROUNDS. */
public class Services {
    static final byte[] MESSAGE = "a message".getBytes();
    static final int THREADS = 16;
    static Provider token;

    public static void main(String[] arguments) throws Exception {
        token = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(token);
        KeyStore store = KeyStore.getInstance("PKCS11", token);
        store.load(null, arguments[1].toCharArray());

        KeyPair rsa = pair("RSA", 2048, null);
        KeyPair ec = pair("EC", 0, "secp384r1");
        for (String algorithm : List.of("SHA1withRSA", "SHA256withRSA", "SHA512withRSA")) {
            signature(algorithm, rsa);
        }
        for (String algorithm : List.of("SHA256withECDSA", "SHA384withECDSA", "SHA512withECDSA")) {
            signature(algorithm, ec);
        }
        rsaCipher(rsa);
        aes();
        agreement();
        mac();
        random();
        keyStore(store);
        threads(rsa, ec, Integer.parseInt(arguments[2]));
        System.out.println("all services: ok");
    }

    static KeyPair pair(String algorithm, int bits, String curve) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance(algorithm, token);
        if (curve == null) {
            generator.initialize(bits);
        } else {
            generator.initialize(new ECGenParameterSpec(curve));
        }
        return generator.generateKeyPair();
    }

    /** Returns the key as an object of the JDK's own providers, which do not use the token. */
    static PublicKey outside(PublicKey key) throws Exception {
        if (key instanceof RSAPublicKey rsa) {
            var spec = new RSAPublicKeySpec(rsa.getModulus(), rsa.getPublicExponent());
            return KeyFactory.getInstance("RSA", "SunRsaSign").generatePublic(spec);
        }
        ECPublicKey ec = (ECPublicKey) key;
        return KeyFactory.getInstance("EC", "SunEC").generatePublic(new ECPublicKeySpec(ec.getW(), ec.getParams()));
    }

    static String software(String algorithm) {
        return algorithm.endsWith("RSA") ? "SunRsaSign" : "SunEC";
    }

    static void signature(String algorithm, KeyPair pair) throws Exception {
        byte[] made = sign(algorithm, pair.getPrivate());
        check(algorithm, verify(Signature.getInstance(algorithm, software(algorithm)), outside(pair.getPublic()), made));
        check(algorithm, verify(Signature.getInstance(algorithm, token), pair.getPublic(), made));
        made[made.length - 1] ^= 1;
        check(algorithm, !verify(Signature.getInstance(algorithm, token), pair.getPublic(), made));
        said(algorithm);
    }

    static byte[] sign(String algorithm, PrivateKey key) throws Exception {
        Signature signature = Signature.getInstance(algorithm, token);
        signature.initSign(key);
        signature.update(MESSAGE);
        return signature.sign();
    }

    static boolean verify(Signature signature, PublicKey key, byte[] made) throws Exception {
        signature.initVerify(key);
        signature.update(MESSAGE);
        return signature.verify(made);
    }

    static void rsaCipher(KeyPair pair) throws Exception {
        Cipher encryption = Cipher.getInstance("RSA/ECB/PKCS1Padding", "SunJCE");
        encryption.init(Cipher.ENCRYPT_MODE, outside(pair.getPublic()));
        Cipher decryption = Cipher.getInstance("RSA/ECB/PKCS1Padding", token);
        decryption.init(Cipher.DECRYPT_MODE, pair.getPrivate());
        check("RSA", Arrays.equals(MESSAGE, decryption.doFinal(encryption.doFinal(MESSAGE))));
        said("RSA/ECB/PKCS1Padding");
    }

    /** SunPKCS11 copies a key of the JDK's own providers into the token when the key is used there. */
    static void aes() throws Exception {
        SecretKey key = new SecretKeySpec(HexFormat.of().parseHex("000102030405060708090a0b0c0d0e0f"), "AES");
        for (String mode : List.of("AES/CBC/PKCS5Padding", "AES/CTR/NoPadding", "AES/GCM/NoPadding")) {
            var parameters = mode.contains("GCM") ? new GCMParameterSpec(128, new byte[12])
                : new IvParameterSpec(new byte[16]);
            Cipher here = Cipher.getInstance(mode, token);
            here.init(Cipher.ENCRYPT_MODE, key, parameters);
            Cipher there = Cipher.getInstance(mode, "SunJCE");
            there.init(Cipher.DECRYPT_MODE, key, parameters);
            check(mode, Arrays.equals(MESSAGE, there.doFinal(here.doFinal(MESSAGE))));
            said(mode);
        }
        KeyGenerator generator = KeyGenerator.getInstance("AES", token);
        generator.init(256);
        SecretKey fresh = generator.generateKey();
        Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding", token);
        cipher.init(Cipher.ENCRYPT_MODE, fresh);
        byte[] encrypted = cipher.doFinal(MESSAGE);
        cipher.init(Cipher.DECRYPT_MODE, fresh, new IvParameterSpec(cipher.getIV()));
        check("AES", Arrays.equals(MESSAGE, cipher.doFinal(encrypted)));
        said("KeyGenerator AES");
    }

    static void agreement() throws Exception {
        KeyPair ours = pair("EC", 0, "secp256r1");
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", "SunEC");
        generator.initialize(new ECGenParameterSpec("secp256r1"));
        KeyPair theirs = generator.generateKeyPair();
        KeyAgreement here = KeyAgreement.getInstance("ECDH", token);
        here.init(ours.getPrivate());
        here.doPhase(theirs.getPublic(), true);
        KeyAgreement there = KeyAgreement.getInstance("ECDH", "SunEC");
        there.init(theirs.getPrivate());
        there.doPhase(outside(ours.getPublic()), true);
        check("ECDH", Arrays.equals(there.generateSecret(), here.generateSecret()));
        said("ECDH");
    }

    static void mac() throws Exception {
        SecretKey key = new SecretKeySpec("Jefe and his key".getBytes(), "Generic");
        for (String algorithm : List.of("HmacSHA1", "HmacSHA256", "HmacSHA512")) {
            Mac here = Mac.getInstance(algorithm, token);
            here.init(key);
            Mac there = Mac.getInstance(algorithm, "SunJCE");
            there.init(key);
            check(algorithm, Arrays.equals(there.doFinal(MESSAGE), here.doFinal(MESSAGE)));
            said(algorithm);
        }
    }

    static void random() throws Exception {
        SecureRandom random = SecureRandom.getInstance("PKCS11", token);
        byte[] bytes = new byte[64];
        random.nextBytes(bytes);
        check("SecureRandom", !Arrays.equals(bytes, new byte[64]));
        random.setSeed(bytes);
        check("SecureRandom", !BigInteger.probablePrime(128, random).equals(BigInteger.probablePrime(128, random)));
        said("SecureRandom");
    }

    /** Stores, finds and deletes a secret key. Also signs with the key that keytool left, if there is one. */
    static void keyStore(KeyStore store) throws Exception {
        SecretKey key = new SecretKeySpec(new byte[32], "AES");
        store.setKeyEntry("kept", key, null, null);
        check("KeyStore", store.isKeyEntry("kept") && store.getKey("kept", null) != null);
        store.deleteEntry("kept");
        check("KeyStore", !store.containsAlias("kept"));
        if (store.containsAlias("server")) {
            PublicKey server = store.getCertificate("server").getPublicKey();
            byte[] made = sign("SHA256withRSA", (PrivateKey) store.getKey("server", null));
            check("KeyStore", verify(Signature.getInstance("SHA256withRSA", "SunRsaSign"), outside(server), made));
        }
        said("KeyStore");
    }

    static void threads(KeyPair rsa, KeyPair ec, int rounds) throws Exception {
        var pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Void>> running = new ArrayList<>();
        for (int thread = 0; thread < THREADS; thread++) {
            boolean odd = thread % 2 == 1;
            String algorithm = odd ? "SHA256withRSA" : "SHA384withECDSA";
            KeyPair pair = odd ? rsa : ec;
            PublicKey key = outside(pair.getPublic());
            Callable<Void> work = () -> {
                for (int round = 0; round < rounds; round++) {
                    byte[] made = sign(algorithm, pair.getPrivate());
                    check("a thread", verify(Signature.getInstance(algorithm, software(algorithm)), key, made));
                }
                return null;
            };
            running.add(pool.submit(work));
        }
        for (Future<Void> one : running) {
            one.get();
        }
        pool.shutdown();
        said(THREADS + " threads, " + rounds + " signatures each");
    }

    static void check(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void said(String what) {
        System.out.println("ok: " + what);
    }
}
