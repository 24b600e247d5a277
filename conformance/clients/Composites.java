// Makes keys, signatures and certificates of composite ML-DSA with Bouncy Castle 1.87, and checks those of
// Jeton. `make` prints the rows of tests/token/composites.json after the first, which is of the draft.
// `certificate NAME` writes a private key and a certificate that it signs. `verify CERTIFICATE...` verifies the
// certificates with the key of the first one.
import java.io.FileInputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PublicKey;
import java.security.Security;
import java.security.Signature;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.List;
import org.bouncycastle.asn1.x500.X500Name;
import org.bouncycastle.asn1.x509.BasicConstraints;
import org.bouncycastle.asn1.x509.Extension;
import org.bouncycastle.cert.X509CertificateHolder;
import org.bouncycastle.cert.jcajce.JcaX509v3CertificateBuilder;
import org.bouncycastle.jcajce.spec.ContextParameterSpec;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.bouncycastle.operator.jcajce.JcaContentSignerBuilder;

public class Composites {
    static final String[] NAMES = {
        "MLDSA44-Ed25519-SHA512", "MLDSA44-ECDSA-P256-SHA256", "MLDSA65-RSA3072-PSS-SHA512",
        "MLDSA65-RSA3072-PKCS15-SHA512", "MLDSA65-ECDSA-P256-SHA512", "MLDSA65-ECDSA-P384-SHA512",
        "MLDSA65-Ed25519-SHA512", "MLDSA87-ECDSA-P384-SHA512",
    };

    public static void main(String[] arguments) throws Exception {
        Security.addProvider(new BouncyCastleProvider());
        switch (arguments[0]) {
            case "make" -> make();
            case "certificate" -> certificate(arguments[1]);
            default -> verify(List.of(arguments).subList(1, arguments.length));
        }
    }

    static KeyPair pair(String name) throws Exception {
        return KeyPairGenerator.getInstance(name, "BC").generateKeyPair();
    }

    static void make() throws Exception {
        List<String> rows = new ArrayList<>();
        for (String name : NAMES) {
            KeyPair pair = pair(name);
            String context = rows.size() % 2 == 0 ? "" : "a context";
            byte[] message = ("a message for " + name).getBytes(StandardCharsets.UTF_8);
            Signature signature = Signature.getInstance(name, "BC");
            signature.initSign(pair.getPrivate());
            if (!context.isEmpty()) {
                signature.setParameter(new ContextParameterSpec(context.getBytes(StandardCharsets.UTF_8)));
            }
            signature.update(message);
            HexFormat hex = HexFormat.of();
            rows.add(String.format("  {\"source\": \"Bouncy Castle\", \"label\": \"COMPSIG-%s\", \"private\": \"%s\", "
                + "\"message\": \"%s\", \"context\": \"%s\", \"signature\": \"%s\"}", name,
                hex.formatHex(pair.getPrivate().getEncoded()), hex.formatHex(message),
                hex.formatHex(context.getBytes(StandardCharsets.UTF_8)), hex.formatHex(signature.sign())));
        }
        System.out.println("[\n" + String.join(",\n", rows) + "\n]");
    }

    static void certificate(String name) throws Exception {
        KeyPair pair = pair(name);
        X500Name subject = new X500Name("CN=" + name);
        Date now = new Date();
        Date end = new Date(now.getTime() + 86_400_000L * 365);
        X509CertificateHolder made =
            new JcaX509v3CertificateBuilder(subject, BigInteger.TEN, now, end, subject, pair.getPublic())
                .addExtension(Extension.basicConstraints, true, new BasicConstraints(true))
                .build(new JcaContentSignerBuilder(name).setProvider("BC").build(pair.getPrivate()));
        Files.write(Path.of(name + ".crt"), made.getEncoded());
        Files.write(Path.of(name + ".p8"), pair.getPrivate().getEncoded());
    }

    static void verify(List<String> files) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509", "BC");
        PublicKey issuer = null;
        for (String file : files) {
            X509Certificate certificate;
            try (FileInputStream input = new FileInputStream(file)) {
                certificate = (X509Certificate) factory.generateCertificate(input);
            }
            certificate.verify(issuer == null ? certificate.getPublicKey() : issuer, "BC");
            issuer = issuer == null ? certificate.getPublicKey() : issuer;
            System.out.println(file + ": " + certificate.getSigAlgName() + " " + certificate.getSigAlgOID());
        }
    }
}
