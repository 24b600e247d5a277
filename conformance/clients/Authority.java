// A small CA: Bouncy Castle builds the structures, SunPKCS11 signs with keys of the token.
//
// java -cp bcprov.jar:bcpkix.jar:bcutil.jar Authority.java CONFIGURATION PIN CSR FILE

import java.io.FileWriter;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import java.util.Date;
import java.util.List;

import org.bouncycastle.asn1.ASN1ObjectIdentifier;
import org.bouncycastle.asn1.pkcs.PKCSObjectIdentifiers;
import org.bouncycastle.asn1.x500.X500Name;
import org.bouncycastle.asn1.x509.BasicConstraints;
import org.bouncycastle.asn1.x509.CRLReason;
import org.bouncycastle.asn1.x509.ExtendedKeyUsage;
import org.bouncycastle.asn1.x509.Extension;
import org.bouncycastle.asn1.x509.Extensions;
import org.bouncycastle.asn1.x509.KeyPurposeId;
import org.bouncycastle.asn1.x509.KeyUsage;
import org.bouncycastle.asn1.x509.SubjectPublicKeyInfo;
import org.bouncycastle.cert.X509CertificateHolder;
import org.bouncycastle.cert.X509v2CRLBuilder;
import org.bouncycastle.cert.X509v3CertificateBuilder;
import org.bouncycastle.cert.jcajce.JcaCertStore;
import org.bouncycastle.cert.jcajce.JcaX509CertificateConverter;
import org.bouncycastle.cert.jcajce.JcaX509CertificateHolder;
import org.bouncycastle.cert.ocsp.BasicOCSPRespBuilder;
import org.bouncycastle.cert.ocsp.CertificateID;
import org.bouncycastle.cert.ocsp.CertificateStatus;
import org.bouncycastle.cert.ocsp.OCSPResp;
import org.bouncycastle.cert.ocsp.OCSPRespBuilder;
import org.bouncycastle.cert.ocsp.RespID;
import org.bouncycastle.cert.ocsp.RevokedStatus;
import org.bouncycastle.cms.CMSProcessableByteArray;
import org.bouncycastle.cms.CMSSignedDataGenerator;
import org.bouncycastle.cms.SignerInfoGenerator;
import org.bouncycastle.cms.SignerInfoGeneratorBuilder;
import org.bouncycastle.openssl.jcajce.JcaPEMWriter;
import org.bouncycastle.operator.ContentSigner;
import org.bouncycastle.operator.DigestCalculator;
import org.bouncycastle.operator.DigestCalculatorProvider;
import org.bouncycastle.operator.jcajce.JcaContentSignerBuilder;
import org.bouncycastle.operator.jcajce.JcaDigestCalculatorProviderBuilder;
import org.bouncycastle.pkcs.PKCS10CertificationRequest;
import org.bouncycastle.tsp.TSPAlgorithms;
import org.bouncycastle.tsp.TimeStampRequest;
import org.bouncycastle.tsp.TimeStampRequestGenerator;
import org.bouncycastle.tsp.TimeStampResponseGenerator;
import org.bouncycastle.tsp.TimeStampTokenGenerator;

public class Authority {
    static final SecureRandom RANDOM = new SecureRandom();
    static final Date NOW = new Date(System.currentTimeMillis() / 1000 * 1000);
    static final Date LATER = new Date(NOW.getTime() + 7 * 24 * 3600 * 1000L);
    static final ASN1ObjectIdentifier POLICY = new ASN1ObjectIdentifier("1.3.6.1.4.1.99999.1");

    final Provider provider;
    final KeyStore store;
    final String algorithm;
    final DigestCalculatorProvider digests = new JcaDigestCalculatorProviderBuilder().build();
    final PrivateKey key;
    final X509CertificateHolder root;

    /** Finds the CA's key of this algorithm in the token, or makes the key and its root certificate. */
    Authority(Provider provider, KeyStore store, String algorithm) throws Exception {
        this.provider = provider;
        this.store = store;
        this.algorithm = algorithm;
        String alias = "authority " + algorithm;
        if (!store.containsAlias(alias)) {
            KeyPairGenerator generator = KeyPairGenerator.getInstance(algorithm, provider);
            if (algorithm.equals("EC")) {
                generator.initialize(new ECGenParameterSpec("secp256r1"));
            } else {
                generator.initialize(2048);
            }
            KeyPair pair = generator.generateKeyPair();
            X500Name name = new X500Name("CN=The " + algorithm + " CA");
            SubjectPublicKeyInfo publicKey = SubjectPublicKeyInfo.getInstance(pair.getPublic().getEncoded());
            X509v3CertificateBuilder builder = builder(name, name, publicKey)
                .addExtension(Extension.basicConstraints, true, new BasicConstraints(true))
                .addExtension(Extension.keyUsage, true,
                    new KeyUsage(KeyUsage.keyCertSign | KeyUsage.cRLSign | KeyUsage.digitalSignature));
            X509Certificate made = new JcaX509CertificateConverter().getCertificate(builder.build(signer(pair.getPrivate())));
            store.setKeyEntry(alias, pair.getPrivate(), null, new Certificate[] {made});
        }
        key = (PrivateKey) store.getKey(alias, null);
        root = new JcaX509CertificateHolder((X509Certificate) store.getCertificate(alias));
        write("root.pem", root);
    }

    ContentSigner signer(PrivateKey key) throws Exception {
        return new JcaContentSignerBuilder(algorithm.equals("EC") ? "SHA256withECDSA" : "SHA256withRSA").setProvider(provider).build(key);
    }

    static X509v3CertificateBuilder builder(X500Name issuer, X500Name subject, SubjectPublicKeyInfo key) {
        return new X509v3CertificateBuilder(issuer, new BigInteger(63, RANDOM), NOW, LATER, subject, key);
    }

    X509CertificateHolder issue(PKCS10CertificationRequest request) throws Exception {
        X509v3CertificateBuilder builder = builder(root.getSubject(), request.getSubject(), request.getSubjectPublicKeyInfo());
        Extension name = Extensions.getInstance(request.getAttributes(PKCSObjectIdentifiers.pkcs_9_at_extensionRequest)[0].getAttrValues().getObjectAt(0))
            .getExtension(Extension.subjectAlternativeName);
        builder.addExtension(name);
        return builder.build(signer(key));
    }

    void revoke(X509CertificateHolder old) throws Exception {
        X509v2CRLBuilder builder = new X509v2CRLBuilder(root.getSubject(), NOW);
        builder.setNextUpdate(LATER);
        builder.addCRLEntry(old.getSerialNumber(), NOW, CRLReason.superseded);
        writePem(".crl", builder.build(signer(key)));
    }

    void answer(X509CertificateHolder good, X509CertificateHolder old) throws Exception {
        DigestCalculator sha1 = digests.get(CertificateID.HASH_SHA1);
        BasicOCSPRespBuilder builder = new BasicOCSPRespBuilder(new RespID(root.getSubject()));
        builder.addResponse(new CertificateID(sha1, root, good.getSerialNumber()), CertificateStatus.GOOD);
        builder.addResponse(new CertificateID(sha1, root, old.getSerialNumber()), new RevokedStatus(NOW, CRLReason.superseded));
        Object response = builder.build(signer(key), new X509CertificateHolder[] {root}, NOW);
        OCSPResp whole = new OCSPRespBuilder().build(OCSPRespBuilder.SUCCESSFUL, response);
        Files.write(Path.of(algorithm + ".ocsp"), whole.getEncoded());
    }

    /** Makes a time stamp. The CA issues a certificate for it, which has the CA's own key. */
    void stamp(byte[] message) throws Exception {
        X509CertificateHolder certificate = builder(root.getSubject(), new X500Name("CN=Time"), root.getSubjectPublicKeyInfo())
            .addExtension(Extension.extendedKeyUsage, true, new ExtendedKeyUsage(KeyPurposeId.id_kp_timeStamping))
            .build(signer(key));
        SignerInfoGenerator by = signerInfo(certificate);
        TimeStampTokenGenerator tokens = new TimeStampTokenGenerator(by, digests.get(CertificateID.HASH_SHA1), POLICY);
        tokens.addCertificates(new JcaCertStore(List.of(certificate)));
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(message);
        TimeStampRequestGenerator requests = new TimeStampRequestGenerator();
        requests.setCertReq(true);
        TimeStampRequest request = requests.generate(TSPAlgorithms.SHA256, digest);
        TimeStampResponseGenerator responses = new TimeStampResponseGenerator(tokens, TSPAlgorithms.ALLOWED);
        Files.write(Path.of(algorithm + ".tsr"), responses.generate(request, BigInteger.ONE, NOW).getEncoded());
    }

    void sign(byte[] message) throws Exception {
        CMSSignedDataGenerator generator = new CMSSignedDataGenerator();
        generator.addSignerInfoGenerator(signerInfo(root));
        generator.addCertificates(new JcaCertStore(List.of(root)));
        Files.write(Path.of(algorithm + ".p7m"), generator.generate(new CMSProcessableByteArray(message), true).getEncoded());
    }

    SignerInfoGenerator signerInfo(X509CertificateHolder certificate) throws Exception {
        return new SignerInfoGeneratorBuilder(digests).build(signer(key), certificate);
    }

    void write(String name, Object object) throws Exception {
        writePem("-" + name, object);
    }

    void writePem(String ending, Object object) throws Exception {
        try (JcaPEMWriter writer = new JcaPEMWriter(new FileWriter(algorithm + ending))) {
            writer.writeObject(object);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Provider provider = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(provider);
        KeyStore store = KeyStore.getInstance("PKCS11", provider);
        store.load(null, arguments[1].toCharArray());
        PKCS10CertificationRequest request = new PKCS10CertificationRequest(Files.readAllBytes(Path.of(arguments[2])));
        byte[] message = Files.readAllBytes(Path.of(arguments[3]));
        for (String algorithm : List.of("EC", "RSA")) {
            Authority authority = new Authority(provider, store, algorithm);
            X509CertificateHolder server = authority.issue(request);
            X509CertificateHolder old = authority.issue(request);
            authority.write("server.pem", server);
            authority.write("old.pem", old);
            authority.revoke(old);
            authority.answer(server, old);
            authority.stamp(message);
            authority.sign(message);
        }
    }
}
